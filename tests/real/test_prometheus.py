"""A real Prometheus on a gateway: targets up, every dashboard's query answered, alerts that fire and resolve."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

from plimsoll.load.children import Child, Children, plimsoll
from plimsoll.policy.document import parse
from plimsoll.policy.yamltext import dump
from plimsoll.slo.burnrate import burn_rules
from plimsoll.telemetry.dashboards import dashboards
from plimsoll.telemetry.rules import ALERT, duration, rules
from tests.real.parts import ROOT, SENDERS, Gateway, address, free_port, gateway, policy_text

pytestmark = pytest.mark.real
SHORTEST = duration(burn_rules(Fraction(99, 100), 86_400)[0].long)
EMULATE = ("emulate", "--profile", "tiny-vllm-cpu", "--model", "tiny", "--speed", "20")


def binary(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is missing (Debian's package {package}), and CI is set")
        pytest.skip(f"{name} is missing (Debian's package {package})")
    return found


@contextmanager
def prometheus(home: Path, target: str, more: str = "", *options: str) -> Iterator[str]:
    """A Prometheus that scrapes that admin port once a second; its URL."""
    port = free_port()
    config = f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
scrape_configs:
  - job_name: plimsoll
    static_configs: [{{targets: ["{target.removeprefix("http://")}"]}}]
{more}
"""
    (home / "prometheus.yml").write_text(config)
    line = [
        *(binary("prometheus", "prometheus"), f"--config.file={home}/prometheus.yml"),
        *(f"--storage.tsdb.path={home}/tsdb", f"--web.listen-address=127.0.0.1:{port}", *options),
    ]
    with Children(home) as children:
        children.start("prometheus", line)
        url = f"http://127.0.0.1:{port}"
        until(lambda: ready(f"{url}/-/ready"))
        yield url


def ready(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def ask(url: str, query: str) -> list[Any]:
    answer = httpx.get(f"{url}/api/v1/query", params={"query": query}, timeout=10).json()
    assert answer["status"] == "success", answer
    result: list[Any] = answer["data"]["result"]
    return result


def send(served: Gateway, num: int, patience: float = 10.0) -> list[int]:
    """That many requests of two gold tenants, eight at a time; their statuses, 0 where the client went away."""
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3, "stream": True}
    with httpx.Client(timeout=patience) as client, ThreadPoolExecutor(8) as threads:

        def one(number: int) -> int:
            headers = {"authorization": f"Bearer {SENDERS[number % 2].key}"}
            try:
                return client.post(f"{served.url}/v1/chat/completions", json=body, headers=headers).status_code
            except httpx.TimeoutException:
                return 0

        return list(threads.map(one, range(num)))


@contextmanager
def service(
    home: Path, change: Callable[[str], str] = str
) -> Iterator[tuple[Gateway, Callable[[], Child], Child, str]]:
    """A gateway on one emulated replica; a way to start that one again, the replica, and the policy's text."""
    port = free_port()
    line = plimsoll(*EMULATE, "--port", str(port))
    with Children(home) as children:

        def start() -> Child:
            child = children.start("emulator", line, {"PYTHONPATH": str(ROOT)})
            child.ready(60.0)
            return child

        child = start()
        policy = change(policy_text([address(child.ready_line)], "vllm"))
        with gateway(home / "served", policy) as served:
            yield served, start, child, policy


@pytest.mark.parametrize("native", [False, True], ids=["classic", "native"])
def test_every_query_of_the_dashboards_returns_data(tmp_path: Path, native: bool) -> None:
    options = ("--enable-feature=native-histograms",) if native else ()
    with service(tmp_path) as (served, *_), prometheus(tmp_path, served.admin_url, "", *options) as url:
        until(lambda: bool(ask(url, 'up{job="plimsoll"} == 1')))
        silent = set(queries(native))
        deadline = time.monotonic() + 60
        while silent and time.monotonic() < deadline:  # a P99 wants 368 values of a tenant, a rate two scrapes
            assert set(send(served, 200)) == {200}
            silent = {query for query in silent if not ask(url, query)}
        assert not silent
        if native:
            assert not ask(url, "plimsoll_ttft_seconds_bucket")


def queries(native: bool) -> list[str]:
    """As Grafana would send them. What needs a fault to have a series is the other test's."""
    found = [query.expr for board in dashboards(native=native) for panel in board.panels for query in panel.queries]
    words = {"$__rate_interval": "30s", "$__range": "5m", "$tenant": ".*", "$tier": ".*"}
    for word, text in words.items():
        found = [query.replace(word, text) for query in found]
    return [query for query in found if 'outcome!="completed"' not in query and "waiting_requests" not in query]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_alerts_fire_on_a_fault_and_resolve_after_it(tmp_path: Path) -> None:
    """The engine dies: every budget burns, Alertmanager hears of it, and hears the end once the engine is back.

    The short window is five minutes, so this takes six.
    """
    alertmanager = binary("prometheus-alertmanager", "prometheus-alertmanager")
    port = free_port()
    (tmp_path / "am.yml").write_text("route: {receiver: none, group_wait: 1s}\nreceivers: [{name: none}]\n")
    line = [
        *(alertmanager, f"--config.file={tmp_path}/am.yml", f"--storage.path={tmp_path}/am"),
        *(f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="),
    ]
    more = f"""rule_files: ["{tmp_path}/rules.yml"]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]}}
"""

    def daily(text: str) -> str:
        return text.replace("plimsoll: 1\n", "plimsoll: 1\nservice: {period: 1d}\n")

    with Children(tmp_path) as children, service(tmp_path, daily) as (served, start, engine, policy):
        (tmp_path / "rules.yml").write_text(dump([rules(parse(policy))]))
        children.start("alertmanager", line)
        until(lambda: ready(f"http://127.0.0.1:{port}/-/ready"))
        with prometheus(tmp_path, served.admin_url, more) as url:
            until(lambda: send(served, 20).count(200) == 20 and bool(ask(url, "plimsoll_requests_total")))
            assert not paged(port)
            engine.process.kill()
            until(lambda: bool(send(served, 16, 3.0)) and paged(port), 120)
            start()
            until(lambda: bool(send(served, 16, 3.0)) and not paged(port), 600)


def paged(port: int) -> bool:
    """Whether Alertmanager has the alert of the shortest windows: longer ones rightly outlive the fault."""
    found = httpx.get(f"http://127.0.0.1:{port}/api/v2/alerts", params={"active": "true"}, timeout=5).json()
    labels = [each["labels"] for each in found]
    return any(each["alertname"] == ALERT and each["window"] == SHORTEST for each in labels)


def until(holds: Callable[[], bool], within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.3)
