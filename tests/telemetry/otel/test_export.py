"""`plimsoll otel` against a receiver process: what arrives, what is kept, what a collector's troubles cost."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from plimsoll.governor.decisions import Settle
from plimsoll.load.children import Children, plimsoll
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome, Phase, Reason
from plimsoll.storage.journal import Journal
from plimsoll.telemetry.otel.spans import phases
from tests.real.parts import SENDERS, address, gateway, policy_text
from tests.storage.rows import NOVEMBER, POLICY, record

ROOT = Path(__file__).parents[3]
CERTS = ROOT / "tests" / "gateway" / "certs"
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
PARENT = "00f067aa0ba902b7"


def row(request_id: int, **changes: object) -> Record:
    """A request below a client's span, in a trace of its own; nothing happened to it."""
    plain = replace(record(request_id), verdicts=(), charge=None, parent_span_id=PARENT, trace_id=f"{request_id:032x}")
    return replace(plain, **changes)


def test_plugins_are_a_span_of_their_own() -> None:
    told = row(9, plugin_time=0.125, plugins="guard:allow")
    assert told.dispatched_at is not None
    (first, _, end), (second, begin, _) = phases(told)[:2]
    assert (first, second, begin) == ("plugins", "queue", end)
    assert end - told.arrived_at == pytest.approx(0.125, abs=1e-6)
    assert next(name for name, *_ in phases(row(10))) == "queue"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(
        tmp_path / "data",
        row(1, verdicts=record(1, bad=True).verdicts, charge=record(1, bad=True).charge),
        row(2, outcome=Outcome.FAILED, reason=Reason.ENGINE_ERROR, phase=Phase.DECODE, e2e=None, attempts=2),
        row(3, outcome=Outcome.REJECTED, reason=Reason.QUEUE_FULL, dispatched_at=None, first_token_at=None, ttft=None,
            e2e=None, finished_at=NOVEMBER, replica="", output_tokens=0),
        *(row(number) for number in range(4, 204)),
    )  # fmt: skip
    return tmp_path


def write(data: Path, *records: Record) -> None:
    journal = Journal.open(data, 1, clock=lambda: NOVEMBER)
    journal.policy(NOVEMBER, POLICY)
    for each in records:
        journal.settle(Settle(each, ()))
    journal.close()


@contextmanager
def receiver(home: Path, *more: str) -> Iterator[str]:
    line = [sys.executable, "-m", "tests.telemetry.otel.receiver", str(home / "got.jsonl"), *more]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"READY (\S+)", process.stdout.readline())
            assert found is not None
            yield found[1]
        finally:
            process.kill()


def send(home: Path, url: str, *more: str, code: int = 0, wait: bool = True) -> str:
    line = [sys.executable, "-m", "plimsoll", "otel", str(home / "data"), "--endpoint", url, *more]
    done = subprocess.run([*line, "--once"] if wait else line, env=ENV, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr


def messages(home: Path, path: str, status: str = "200") -> list[Any]:
    text = (home / "got.jsonl").read_text() if (home / "got.jsonl").exists() else ""
    found = [json.loads(line) for line in text.split("\n")[:-1]]  # the last may be half written
    return [each for each in found if each["path"] == path and each["status"] == status]


def spans(home: Path, status: str = "200") -> list[Any]:
    return [
        span
        for each in messages(home, "/v1/traces", status)
        for traced in each["message"]["resource_spans"]
        for scope in traced["scope_spans"]
        for span in scope["spans"]
    ]


def said(of: Any) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in of["attributes"]}


def roots(found: list[Any]) -> dict[int, Any]:
    return {int(said(span)["plimsoll.request.id"][4:], 16): span for span in found if span["name"].startswith("chat")}


def test_what_arrives_is_what_happened(home: Path) -> None:
    with receiver(home) as url:
        send(
            home, url, "--share", "0", "--tenant-attribute", "tenant.id", "--resource", "deployment.environment.name=x"
        )
    found = spans(home)
    requests = roots(found)
    assert requests.keys() == {1, 2, 3}
    assert [said(requests[number])["plimsoll.kept_because"] for number in (1, 2, 3)] == [
        "charged",
        "failed",
        "rejected",
    ]
    late = requests[1]
    assert (late["name"], late["kind"], late["flags"]) == ("chat llama-3.1-70b", "SPAN_KIND_SERVER", 1)
    assert said(late)["tenant.id"] == "acme"
    assert said(late)["gen_ai.provider.name"] == said(late)["gen_ai.system"] == "plimsoll"
    assert (said(late)["gen_ai.usage.input_tokens"], said(late)["gen_ai.usage.output_tokens"]) == ("1000", "300")
    assert "error.type" not in said(late)
    assert "gen_ai.usage.cache_read.input_tokens" not in said(late), "unknown is not zero"
    assert said(requests[2])["error.type"] == "engine_error"
    assert requests[2]["status"]["code"] == "STATUS_CODE_ERROR"
    assert int(late["start_time_unix_nano"]) == int(NOVEMBER * 1e9)
    assert int(late["end_time_unix_nano"]) - int(late["start_time_unix_nano"]) == 9_000_000_000
    resource = messages(home, "/v1/traces")[0]["message"]["resource_spans"][0]["resource"]
    assert said(resource) | {"service.version": ""} == {
        "service.name": "plimsoll", "service.version": "", "deployment.environment.name": "x",
    }  # fmt: skip


def test_phases_hang_below_their_request_and_follow_each_other(home: Path) -> None:
    with receiver(home) as url:
        send(home, url, "--share", "0")
    found = spans(home)
    for number, names in ((1, ["queue", "prefill", "decode"]), (3, ["queue"])):
        whole = roots(found)[number]
        below = [span for span in found if span.get("parent_span_id") == whole["span_id"]]
        assert [span["name"] for span in below] == names
        assert {span["trace_id"] for span in below} == {whole["trace_id"]}
        edges = [(int(span["start_time_unix_nano"]), int(span["end_time_unix_nano"])) for span in below]
        assert [begin for begin, _ in edges[1:]] == [end for _, end in edges[:-1]]
        assert (edges[0][0], edges[-1][1]) == (int(whole["start_time_unix_nano"]), int(whole["end_time_unix_nano"]))
    ids = [span["span_id"] for span in found]
    assert len(set(ids)) == len(ids)


def test_the_decision_journal_is_the_log(home: Path) -> None:
    with receiver(home) as url:
        send(home, url)
    told = [
        entry
        for each in messages(home, "/v1/logs")
        for logged in each["message"]["resource_logs"]
        for scope in logged["scope_logs"]
        for entry in scope["log_records"]
    ]
    assert [entry["event_name"] for entry in told] == ["plimsoll.policy", "plimsoll.request", "plimsoll.request"]
    assert [entry["severity_text"] for entry in told] == ["INFO", "WARN", "WARN"]
    assert "came into force" in told[0]["body"]["string_value"]
    assert told[1]["span_id"] == roots(spans(home))[2]["span_id"], "a log of a request is tied to its trace"


def test_metrics_count_every_request_whatever_is_sampled(home: Path) -> None:
    with receiver(home) as url:
        send(home, url, "--share", "0")
    last = messages(home, "/v1/metrics")[-1]["message"]["resource_metrics"][0]["scope_metrics"][0]["metrics"]
    found = {metric["name"]: metric for metric in last}
    ttft = found["gen_ai.server.time_to_first_token"]["histogram"]
    assert ttft["aggregation_temporality"] == "AGGREGATION_TEMPORALITY_CUMULATIVE"
    assert int(ttft["data_points"][0]["count"]) == 201, "of successful requests, as the conventions say"
    bounds, counts = ttft["data_points"][0]["explicit_bounds"], ttft["data_points"][0]["bucket_counts"]
    assert bounds[9:11] == [0.5, 0.75]
    assert [int(num) for num in counts[9:11]] == [201, 0], "a bound belongs to the bucket below it"
    requests = found["plimsoll.requests"]["sum"]["data_points"]
    assert {said(point)["plimsoll.reason"]: int(point["as_int"]) for point in requests} == {
        "done": 201, "engine_error": 1, "queue_full": 1,
    }  # fmt: skip
    output = found["gen_ai.client.inference.usage.output_tokens"]["sum"]["data_points"]
    assert sum(int(point["as_int"]) for point in output) == 202 * 300


def test_a_share_of_the_rest_is_kept_by_trace_id(home: Path) -> None:
    with receiver(home) as url:
        send(home, url, "--share", "1")
    assert len(roots(spans(home))) == 203


def test_slow_ones_are_kept_once_it_is_known_what_is_usual(home: Path) -> None:
    write(home / "data", *(row(number) for number in range(300, 400)), row(400, e2e=30.0, finished_at=NOVEMBER + 30))
    with receiver(home) as url:
        send(home, url, "--share", "0")
    kept = {number: said(span)["plimsoll.kept_because"] for number, span in roots(spans(home)).items()}
    assert kept.pop(400) == "slow"
    assert kept.keys() == {1, 2, 3}


def test_nothing_is_sent_twice_and_nothing_is_forgotten(home: Path) -> None:
    with receiver(home) as url:
        send(home, url, "--share", "1")
        write(home / "data", row(500))
        send(home, url, "--share", "1")
        send(home, url, "--share", "1")
    assert sorted(roots(spans(home))) == [*range(1, 204), 500]
    assert len(spans(home)) == len({span["span_id"] for span in spans(home)})


def test_what_a_collector_refuses_is_told_and_not_sent_again(home: Path) -> None:
    with receiver(home, "--script", "400") as url:
        told = send(home, url, "--share", "0", code=0)
    assert "traces were refused: 400" in told
    assert spans(home, "400")
    assert not spans(home)


def test_a_part_that_is_rejected_is_told(home: Path) -> None:
    with receiver(home, "--script", "partial") as url:
        assert "1 traces were rejected: one is too old" in send(home, url, "--share", "0")


def test_rows_wait_while_the_collector_is_away(home: Path) -> None:
    with receiver(home) as url:
        port = url.rpartition(":")[2]
    assert "rows wait in the journal" in send(home, url, code=1)
    line = [
        sys.executable,
        "-m",
        "plimsoll",
        "otel",
        str(home / "data"),
        "--endpoint",
        url,
        "--from-start",
        "--share=1",
    ]
    with subprocess.Popen(line, env=ENV, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(1.5)
        write(home / "data", row(600))
        with receiver(home, "--port", port, "--script", "503"):
            until(lambda: 600 in roots(spans(home)))
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            told = process.stderr.read()
            assert process.wait(20) == 0
    assert "sending goes on" in told
    assert sorted(roots(spans(home))) == [*range(1, 204), 600]
    assert spans(home, "503"), "the same was sent again after it was turned away"


def test_killed_at_any_moment_it_loses_nothing(home: Path) -> None:
    """What a collector's store keeps is keyed by span id: those of the last batch may come twice."""
    with receiver(home) as url:
        for again in range(4):
            write(home / "data", *(row(1000 * (again + 1) + number) for number in range(600)))
            line = [sys.executable, "-m", "plimsoll", "otel", str(home / "data"), "--endpoint", url, "--from-start"]
            with subprocess.Popen([*line, "--share=1"], env=ENV) as process:
                until(partial(some_more, home, again))
                process.kill()
        send(home, url, "--share", "1")
    assert len(roots(spans(home))) == 203 + 4 * 600


def test_a_collector_that_asks_for_a_certificate(home: Path) -> None:
    first, authority = str(CERTS / "first.pem"), str(CERTS / "ca.pem")
    with receiver(home, "--cert", first, "--client-ca", authority) as url:
        assert "rows wait" in send(home, url, "--ca", authority, code=1)
        send(home, url, "--ca", authority, "--cert", str(CERTS / "second.pem"), "--headers", "x-team=a%20b")
    assert roots(spans(home)).keys() >= {1, 2, 3}
    assert messages(home, "/v1/traces")[0]["headers"]["x-team"] == "a b"


def test_live_a_request_hangs_below_its_client_and_the_engine_below_it(tmp_path: Path) -> None:
    """From an HTTP request with a `traceparent` to the collector, through gateway, journal and exporter."""
    line = plimsoll("emulate", "--profile", "tiny-vllm-cpu", "--model", "tiny", "--port", "0")
    trace_id, sender = "4bf92f3577b34da6a3" + 14 * "f", SENDERS[0]  # among the share of traces that is always kept
    with receiver(tmp_path) as url, Children(tmp_path) as children:
        policy = policy_text([address(children.start("emulator", line, {"PYTHONPATH": str(ROOT)}).ready(60.0))], "vllm")
        with gateway(tmp_path, policy, "--otel", url) as served:
            body = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3}
            headers = {"authorization": f"Bearer {sender.key}", "traceparent": f"00-{trace_id}-{PARENT}-01"}
            answer = httpx.post(f"{served.url}/v1/chat/completions", json=body, headers=headers, timeout=30)
            assert answer.status_code == 200
            assert httpx.post(f"{served.url}/v1/chat/completions", content=b"{", headers=headers).status_code == 400
        send(tmp_path, url, "--share", "1")  # what the exporter had not sent when the gateway told it to end
        found = roots(spans(tmp_path))
    assert len(found) == 2
    for span in found.values():
        assert base64.b64decode(span["trace_id"]).hex() == trace_id
        assert base64.b64decode(span["parent_span_id"]).hex() == PARENT


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--endpoint", "collector:4318"), "expected a URL like http://collector:4318"),
        (("--share", "1.5"), "--share: expected 0 to 1"),
        (("--metrics-every", "0"), "--metrics-every: expected seconds above 0"),
        (("--headers", "x"), "--headers: expected name=value"),
        (("--resource", "x"), "--resource: expected name=value"),
        (("--key", "k.pem"), "--key needs --cert"),
        (("--ca", "/nowhere.pem"), "the certificates (/nowhere.pem) cannot be used"),
    ],
)
def test_bad_options_are_told(home: Path, more: tuple[str, ...], says: str) -> None:
    url = () if "--endpoint" in more else ("--endpoint", "http://127.0.0.1:9")
    line = [sys.executable, "-m", "plimsoll", "otel", str(home / "data"), *url, *more, "--once"]
    done = subprocess.run(line, env=ENV, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())


def some_more(home: Path, than: int) -> bool:
    return len(messages(home, "/v1/traces")) > than


def until(holds: Callable[[], bool], within: float = 30.0) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
