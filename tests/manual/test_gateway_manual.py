"""docs/gateway.md against the code: endpoints, headers, metrics and options are all there, and no others."""

import inspect
import re
from pathlib import Path

from plimsoll.cli.prefixpage import write_prefixes
from plimsoll.cli.serve import serve
from plimsoll.gateway import labels, vouching
from plimsoll.gateway.dialects.dialect import DIALECTS
from plimsoll.gateway.finding import PrefixFinder
from plimsoll.gateway.kvpool import PoolCaches
from plimsoll.gateway.routes import ENGINE_ADMIN, GOVERNED
from plimsoll.governor.snapshot import PoolState, QueueState, ReplicaState, SizingState, Snapshot
from plimsoll.policy.policy import Pool
from plimsoll.telemetry import scaling
from plimsoll.telemetry.exposition import Page
from plimsoll.telemetry.prometheus import Metrics, write_snapshot

TEXT = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")


def test_endpoints() -> None:
    for path in (*GOVERNED, *ENGINE_ADMIN):
        assert f"{path.decode()}`" in TEXT


def test_request_headers() -> None:
    told = {name.lower() for name in re.findall(r"`(X-Plimsoll-[\w-]+|X-Request-Start|traceparent|baggage)", TEXT)}
    read = {name.decode() for name in (*labels.OURS, vouching.START, labels.TRACEPARENT, labels.BAGGAGE)}
    assert read <= told


def test_metrics() -> None:
    page = Page()
    for _ in Metrics().write(page):
        pass
    replica = ReplicaState("r", True, True, False, 0, 0, 1, "blocks", 0.0, {}, {}, 0, 0, 0.0, 0.0)
    sizing = SizingState("q", 1, 2, 1, 1, 0.0, 0.0, "", "", 0.0, 0)
    pool = PoolState("p", "m", 0, 0, 0.0, (replica,), adaptive=sizing)
    queue = QueueState("p", "t", "a", 1, 0.0)
    snapshot = Snapshot(0.0, "v", False, 0, (pool,), (queue,), ())
    write_snapshot(page, snapshot)
    scaling.write(page, scaling.Scaling().signals(snapshot, 1.0))
    finder = PrefixFinder(lambda: 0.0, None)  # type: ignore[arg-type]
    finder.caches["p"] = PoolCaches(Pool("p", "m", "vllm", ("r",)), 1)
    write_prefixes(page, finder)
    written = set(re.findall(r"# TYPE (\S+)", b"".join(page.pieces()).decode()))
    told = set(re.findall(r"`(plimsoll_\w+)`", TEXT))
    counted_elsewhere = {
        "plimsoll_unattributed_refusals_total",
        "plimsoll_journal_room_bytes",
        "plimsoll_clock_ahead_seconds",
    }
    assert written == told - counted_elsewhere
    assert counted_elsewhere <= told


def test_options_and_engines() -> None:
    options = {f"--{name.replace('_', '-')}" for name in inspect.signature(serve).parameters if name != "policy_file"}
    options = options - {"--project"} | {"--no-project"}
    table = TEXT[TEXT.index("| option |") : TEXT.index("## Endpoints")]
    assert options == set(re.findall(r"--[a-z][a-z-]+", table))
    assert {f"| `{name}` |" in TEXT for name in DIALECTS} == {True}
