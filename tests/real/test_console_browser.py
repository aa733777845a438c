"""The console in a real Chromium: every page, live updates, many tenants, a slow and a dead gateway, accessibility."""

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from benchmarks.episodes import episode
from benchmarks.recordedlogs import keep
from plimsoll.console.feed import Feed
from plimsoll.governor.decisions import Settle
from plimsoll.storage.journal import Journal
from tests.console.recorded import Serving, serving
from tests.console.recorded import keep as keep_incident

pytestmark = pytest.mark.real
PAGES = (
    "/",
    "/tenants",
    "/tenants/acme",
    "/diagnose?tenant=acme",
    "/cache",
    "/replicas",
    "/journal?span=all",
    "/what-if",
    "/capability",
)
SHOWS_WAITING = "number => document.querySelector('#queues td:nth-of-type(3)')?.innerText === number"
AUDIT = (Path(__file__).parent / "accessibility.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep_incident("neighbour_long_prompts", tmp_path_factory.mktemp("browser") / "data")


@pytest.fixture(scope="module")
def served(incident: Path) -> Iterator[Serving]:
    with serving(incident) as served:
        yield served.read()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    path = shutil.which("chromium")
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is missing (Debian's package), and CI is set")
        pytest.skip("chromium is missing (Debian's package)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def tab(chromium: Any, *, width: int = 1280, scheme: str = "light", locale: str = "en-US") -> Iterator[Any]:
    """A page that must not complain, nor ask anybody but its console."""
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, locale=locale)
    page = context.new_page()
    page.set_default_timeout(30_000)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: None if "//127.0.0.1:" in request.url else wrong.append(request.url))
    try:
        yield page
        assert not [each for each in wrong if "ERR_CONNECTION_REFUSED" not in each and "ERR_INCOMPLETE" not in each]
    finally:
        context.close()


@pytest.mark.parametrize(("width", "scheme", "locale"), [(1280, "light", "en-US"), (390, "dark", "zh-CN")])
def test_every_page_is_accessible_and_fits(
    served: Serving, chromium: Any, width: int, scheme: str, locale: str
) -> None:
    with tab(chromium, width=width, scheme=scheme, locale=locale) as page:
        for path in PAGES:
            page.goto(served.url + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate(AUDIT) == [], path


def test_keys_lead_everywhere(served: Serving, chromium: Any) -> None:
    with tab(chromium) as page:
        page.goto(served.url)
        page.keyboard.press("2")
        page.wait_for_url("**/tenants")
        page.keyboard.press("j")
        page.keyboard.press("j")
        assert page.locator("tr.chosen").count() == 1
        page.keyboard.press("/")
        page.keyboard.type("eel")
        assert page.locator("tbody tr:visible").count() == 1
        page.keyboard.press("Tab")
        page.keyboard.press("Escape")
        page.locator("h1").click()
        page.keyboard.press("?")
        assert page.locator("dialog#help[open]").count() == 1
        page.keyboard.press("Escape")
        page.keyboard.press("l")
        page.wait_for_selector("html[lang=zh-CN]")
        page.keyboard.press("t")
        page.wait_for_selector("html[data-theme=dark]")
        page.keyboard.press("8")
        page.wait_for_url("**/capability")
        page.keyboard.press("1")
        page.wait_for_selector("[data-lead]")
        page.keyboard.press("Enter")
        page.wait_for_url("**/diagnose?tenant=acme")


def test_the_lead_is_followed_to_one_request(served: Serving, chromium: Any) -> None:
    with tab(chromium) as page:
        page.goto(served.url)
        page.click("[data-lead]")
        assert "eel" in page.inner_text("[data-found]")
        page.click("text=its slowest request")
        assert page.locator(".timeline li").count() >= 4


def test_a_confirmation_wants_the_token(served: Serving, chromium: Any) -> None:
    with tab(chromium) as page:
        page.goto(served.url + "/tenants/acme")
        page.click("text=Override …")
        dialog = page.locator("dialog#override")
        assert dialog.get_attribute("open") is not None
        page.click("dialog#override [data-close]")
        assert dialog.get_attribute("open") is None


def test_what_ends_is_seen_within_a_second(tmp_path: Path, chromium: Any) -> None:
    incident = episode("no_fault", 0)
    now = time.time()
    shift = now - max(record.finished_at for record in incident.records) - 1.0
    records = [
        replace(record, arrived_at=record.arrived_at + shift, finished_at=record.finished_at + shift)
        for record in incident.records[:65]
    ]
    keep(records[:60], incident.policy, tmp_path / "data")
    with closing(Journal.open(tmp_path / "data")) as journal, serving(tmp_path / "data") as live, tab(chromium) as page:
        live.read()
        page.goto(live.url)
        page.wait_for_selector(".state.live, .state.recorded")
        waits = []
        for record in records[60:]:
            page.wait_for_timeout(300)
            before = page.inner_text("#ended")
            settled = replace(record, finished_at=time.time(), request_id=record.request_id + 1)
            began = time.monotonic()
            journal.settle(Settle(settled, ()))
            journal.flush()
            page.wait_for_function("text => document.querySelector('#ended').textContent !== text", arg=before)
            waits.append(time.monotonic() - began)
        assert sorted(waits)[2] < 1.0, waits


def test_two_hundred_tenants(tmp_path: Path, chromium: Any) -> None:
    incident = episode("no_fault", 0)
    names = [f"tenant-{number:03}" for number in range(200)]
    listed = ", ".join(f"{{name: {name}, tier: silver}}" for name in names)
    policy = incident.policy.replace("tenants: [", f"tenants: [{listed}, ")
    records = [
        replace(record, tenant=names[place % 200], tier="silver") for place, record in enumerate(incident.records[:400])
    ]
    keep(records, policy, tmp_path / "data")
    with serving(tmp_path / "data") as many, tab(chromium) as page:
        many.read(60)
        page.goto(many.url + "/tenants")
        assert page.locator("tbody tr").count() >= 200
        page.goto(many.url)
        assert "all 200 tenants" in page.inner_text("#tails")


class Admin:
    """A gateway's admin port that answers, dawdles or is gone."""

    def __init__(self) -> None:
        self.port, self.delay, self.waiting = 0, 0.0, 7
        self._end: Callable[[], object] = lambda: None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    async def _serve(self) -> None:
        ending, loop = asyncio.Event(), asyncio.get_running_loop()
        self._end = lambda: loop.call_soon_threadsafe(ending.set)
        app = web.Application()
        app.add_routes([web.get("/admin/snapshot", self._snapshot)])
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await ending.wait()
        await runner.cleanup()

    async def _snapshot(self, _: web.Request) -> web.Response:
        await asyncio.sleep(self.delay)
        replica = {
            "replica": "http://r1", "healthy": True, "routable": True, "leaving": False, "in_flight": 3, "reserved": 10,
            "capacity": 100, "unit": "blocks", "saturation": 0.1, "floors": {"gold": 40}, "used": {"gold": 10},
            "running": 3, "waiting": 0, "kv_usage": 0.2, "report_age": 0.1, "ttft_error_median": None,
            "ttft_error_p90": None, "ttft_bias": None, "ejected": 0,
        }  # fmt: skip
        waiting = {"pool": "chat", "waiting": self.waiting}
        pool = waiting | {"model": "m", "in_flight": 3, "saturation": 0.1, "replicas": [replica]}
        queue = waiting | {"tier": "gold", "tenant": "acme", "oldest_at": time.time() - 2}
        told = {"at": time.time(), "policy_version": "v", "draining": False, "degradation_level": 1}
        return web.json_response(told | {"pools": [pool], "queues": [queue], "counts": []})

    def stop(self) -> None:
        if self._thread.is_alive():
            self._end()
            self._thread.join(10)


@contextmanager
def watching(root: Path) -> Iterator[tuple[Admin, Serving]]:
    """A console beside such a gateway."""
    admin = Admin()
    try:
        with serving(root, Feed(f"http://127.0.0.1:{admin.port}", "")) as watched:
            yield admin, watched
    finally:
        admin.stop()


def test_queues_are_a_second_old_at_most_and_a_slow_gateway_is_told(incident: Path, chromium: Any) -> None:
    with watching(incident) as (admin, watched), tab(chromium) as page:
        page.goto(watched.url + "/replicas")
        page.wait_for_selector(".state.live")
        assert "acme" in page.inner_text("#queues")
        waits = []
        for number in (8, 9, 10):
            admin.waiting, began = number, time.monotonic()
            page.wait_for_function(SHOWS_WAITING, arg=str(number))
            waits.append(time.monotonic() - began)
        assert sorted(waits)[1] < 1.0, waits
        admin.delay = 3.0
        page.wait_for_selector(".state.stale")
        assert "Stale." in page.inner_text("#banner")


@pytest.mark.long
def test_a_gateway_that_comes_back_and_one_that_is_gone_are_told(incident: Path, chromium: Any) -> None:
    with watching(incident) as (admin, watched), tab(chromium) as page:
        admin.delay = 3.0
        page.goto(watched.url + "/replicas")
        page.wait_for_selector(".state.stale")
        admin.delay = 0.0
        page.wait_for_selector(".state.live")
        admin.stop()
        page.wait_for_selector(".state.stale")
        assert page.locator("#pools tr[data-row]").count() >= 1  # what was known stays, and is said to be old


def test_a_console_that_has_ended_is_told(incident: Path, chromium: Any) -> None:
    with tab(chromium) as page:
        page.clock.install()
        with serving(incident) as ending:
            page.goto(ending.url)
            assert page.locator("#lost").is_hidden()
        page.clock.fast_forward(6_000)  # ms
        page.wait_for_selector("#lost:visible")


def test_a_what_if_is_begun_and_cancelled(served: Serving, chromium: Any) -> None:
    with tab(chromium) as page:
        page.goto(served.url + "/what-if")
        page.fill("[name=factor]", "1.5")
        page.click("button.main")
        page.wait_for_selector("#job progress")
        page.click("#job button")
        page.wait_for_selector("text=Cancelled.")


@pytest.mark.long
def test_a_what_if_shows_curves_beside_todays(served: Serving, chromium: Any) -> None:
    with tab(chromium) as page:
        page.goto(served.url + "/what-if")
        page.fill("[name=factor]", "2")
        page.fill("[name=seeds]", "2")
        page.click("button.main")
        page.wait_for_selector("[data-done]", timeout=600_000)
        assert page.locator(".charts svg").count() >= 4
        assert page.locator("tbody tr").count() >= 4
