"""What `plimsoll serve` wires together: gateway, admin port, metrics, the processes beside it, signals."""

import asyncio
import logging
import os
import resource
import secrets
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from plimsoll.cli.consolebeside import ConsoleBeside
from plimsoll.cli.prefixpage import write_prefixes
from plimsoll.cli.sideprocess import SideProcess
from plimsoll.engine import profiles
from plimsoll.errors import PlimsollError, PolicyError, UsageError
from plimsoll.gateway.admin import Admin, Reloaded
from plimsoll.gateway.app import App, Promise
from plimsoll.gateway.bookkeeping import EVERY as LOOK_EVERY
from plimsoll.gateway.bookkeeping import Bookkeeping
from plimsoll.gateway.clock import ClockWatch, wall_clock
from plimsoll.gateway.feed import Feed
from plimsoll.gateway.kvevents import check_installed as check_events
from plimsoll.gateway.listening import cannot_listen, in_url
from plimsoll.gateway.tls import ServingTls
from plimsoll.governor.snapshot import Snapshot
from plimsoll.policy import document
from plimsoll.policy.presets import preset
from plimsoll.storage import projector
from plimsoll.storage.datadir import write_whole
from plimsoll.storage.inbox import Inbox
from plimsoll.storage.journal import Journal
from plimsoll.telemetry import scaling
from plimsoll.telemetry.exposition import Exposition, Page
from plimsoll.telemetry.otel.place import Place, check_installed, exporter
from plimsoll.telemetry.prometheus import Metrics, write_counts, write_snapshot
from plimsoll.telemetry.protobufpage import ProtobufPage, is_wanted
from plimsoll.telemetry.scaling import PoolSignal, Scaling

CLOCK_EVERY: Final = 10.0  # s between looks at the time of day
MOST_FILES: Final = 1 << 16  # descriptors that we ask for: 10,000 clients with their engines take a third of it
_log = logging.getLogger("plimsoll.gateway")


class Settings(Struct, frozen=True):
    """The command line."""

    policy_file: Path
    preset: str
    host: str
    port: int
    admin_host: str
    admin_port: int
    data: Path
    writer: int
    project: bool
    ledger: str | None = None
    tls: ServingTls | None = None
    otel: str = ""
    console: tuple[str, int] | None = None  # host and port; None: no console


def read_promise(settings: Settings) -> Promise:
    """The policy with its profiles. Raises PolicyError with all faults, ProfileError, UsageError."""
    text = document.read(settings.policy_file)
    examination = document.examine(text)
    if examination.policy is None:
        raise PolicyError(str(settings.policy_file), list(examination.faults))
    policy = preset(examination.policy, settings.preset) if settings.preset else examination.policy
    check_events(policy)
    loaded = profiles.of_policy(policy)
    warnings = tuple(str(fault) for fault in examination.warnings)
    for warning in warnings:
        _log.warning("%s: %s", settings.policy_file, warning)
    return Promise(policy, loaded, warnings, text)


class Service:
    """One running gateway with its admin side (`admin.Operations`)."""

    def __init__(self, settings: Settings, app: App, promise: Promise) -> None:
        self.feed: Feed = app.feed
        self._settings = settings
        self._app = app
        self._metrics = Metrics()
        self._scaling = Scaling()
        self._reloading: asyncio.Task[None] | None = None
        self._one_reload = asyncio.Lock()
        self._clock_watch = ClockWatch(app.clock)
        app.driver.carrier.settled += [self._metrics.settled, self._scaling.settled]
        self._take_policy(promise)

    async def watch_clock(self) -> None:
        """Tell when somebody sets the time of day; until cancelled."""
        while True:
            await asyncio.sleep(CLOCK_EVERY)
            ahead = self._clock_watch.step()
            if ahead is not None:
                _log.warning(
                    "the time of day is %+.1f s from this gateway's clock: durations are right, instants in rows are "
                    "by the old time until it is restarted",
                    ahead,
                )

    def unready(self) -> list[str]:
        """See `Operations`."""
        return self._app.unready()

    def snapshot(self) -> bytes:
        """See `Operations`."""
        return msgspec.json.encode(self._app.governor.snapshot(self._app.clock()))

    async def metrics(self, accept: str) -> tuple[str, list[bytes]]:
        """See `Operations`."""
        page: Exposition = ProtobufPage() if is_wanted(accept) else Page()
        for _ in self._metrics.write(page):
            await asyncio.sleep(0)
        snapshot = self._app.governor.snapshot(self._app.clock(), with_accounts=False)
        write_snapshot(page, snapshot)
        scaling.write(page, self._signals(snapshot))
        refused = [(reason.value, num) for reason, num in self._app.driver.unattributed.items()]
        write_counts(page, "plimsoll_unattributed_refusals_total", "Refusals of nobody's requests.", refused, "reason")
        write_prefixes(page, self._app.finder)
        journal = self._app.journal.state
        page.family("plimsoll_journal_room_bytes", "gauge", "Room that is sure, on this disk or in the reserve.")
        page.sample(journal.room_bytes, mode=journal.mode)
        page.family("plimsoll_clock_ahead_seconds", "gauge", "Time of day less the gateway's clock, which never steps.")
        page.sample(self._clock_watch.ahead())
        return page.content_type, page.pieces()

    def scaling(self) -> bytes:
        """See `Operations`."""
        snapshot = self._app.governor.snapshot(self._app.clock(), with_accounts=False)
        return msgspec.json.encode({"at": snapshot.at, "pools": self._signals(snapshot)})

    def external_metrics(self, metric: str, pool: str) -> bytes | None:
        """See `Operations`."""
        snapshot = self._app.governor.snapshot(self._app.clock(), with_accounts=False)
        chosen = {name: each for name, each in self._signals(snapshot).items() if pool in {"", name}}
        found = scaling.external_metrics(metric, chosen, snapshot.at)
        return None if found is None else msgspec.json.encode(found)

    def _signals(self, snapshot: Snapshot) -> dict[str, PoolSignal]:
        return self._scaling.signals(snapshot, float(self._app.driver.policy.scheduling.saturation_limit))

    async def reload(self) -> Reloaded:
        """See `Operations`."""
        async with self._one_reload:  # what was read last is what is in force
            promise = await asyncio.to_thread(read_promise, self._settings)  # a millisecond a tenant
            if self._settings.tls is not None:
                await asyncio.to_thread(self._settings.tls.reload)
            await self._app.change_policy(promise)
            self._take_policy(promise)
        _log.info("policy %s is in force", promise.policy.version)
        return Reloaded(promise.policy.version, promise.warnings)

    def on_hangup(self) -> None:
        """SIGHUP: reload, and say so where it cannot be."""
        self._reloading = asyncio.create_task(self._reload_or_tell())

    async def _reload_or_tell(self) -> None:
        try:
            await self.reload()
        except PlimsollError as error:
            _log.error("the old policy stays in force: %s", error)

    def _take_policy(self, promise: Promise) -> None:
        self._metrics.take(self._app.driver.policy)
        try:
            write_whole(self._app.journal.paths.policy, promise.text.encode())
        except OSError as error:  # a copy for people: a full disk must keep nobody from starting or reloading
            _log.warning("policy %s is in force, but not copied: %s", promise.policy.version, error)


async def serve_until_told(settings: Settings) -> None:
    """Run a gateway until SIGTERM or SIGINT, then drain it; a second signal ends it at once."""
    if settings.ledger is not None and not settings.ledger.startswith(("postgresql://", "postgresql+psycopg://")):
        raise UsageError("--ledger: must be postgresql://user@host/name; without it the data directory has the books")
    if settings.otel:
        check_installed()
    promise = read_promise(settings)
    allow_files()
    clock = wall_clock()
    journal = Journal.open(settings.data, settings.writer, clock=clock)
    app = App(promise, journal, clock)
    service = Service(settings, app, promise)
    token_file, token = _token(settings.data)
    admin = Admin(service, token)
    projecting = SideProcess(lambda: projector.command(settings.data, settings.ledger))
    exporting = SideProcess(
        lambda: exporter(settings.data, settings.otel), ended="the exporter ended: OpenTelemetry hears nothing"
    )
    bookkeeping = Bookkeeping(Inbox(settings.data), journal, clock, app.reported)
    bookkeeping.look()  # what was decided while nobody served holds from the first request on
    stops = _stops(service)
    console: ConsoleBeside | None = None
    try:
        if settings.console is not None:
            console = await ConsoleBeside.at(settings.console, settings.data)
        port = await app.listen(settings.host, settings.port, settings.tls.context if settings.tls else None)
        try:
            admin_port = await admin.listen(settings.admin_host, settings.admin_port)
        except OSError as error:
            raise UsageError(cannot_listen(settings.admin_host, settings.admin_port, error, "--admin-port")) from error
        if settings.project:
            await projecting.start()
        if settings.otel:
            Place(settings.data).begin(from_start=False)  # however late the exporter comes, it tells what we serve
            await exporting.start()
        if console is not None:
            await console.start(_admin_url(settings, admin_port))
        _say_ready(settings, port, admin_port, token_file, console.url if console else "")
        looking = asyncio.create_task(_look(bookkeeping))
        watching = asyncio.create_task(service.watch_clock())
        await stops.wait()
        looking.cancel()
        watching.cancel()
        stops.clear()
        _log.info("draining: %d requests are open", app.driver.num_open)
        await _either(app.drain(), stops.wait())
    finally:
        await admin.close()
        await app.close()
        await asyncio.gather(projecting.stop(), exporting.stop(), *([console.stop()] if console else []))


async def _look(bookkeeping: Bookkeeping) -> None:
    while True:
        await asyncio.sleep(LOOK_EVERY)
        try:
            bookkeeping.look()
        except Exception as fault:  # one file that cannot be taken must not be the last that is looked for
            _log.error("a fault of the gateway itself, looking for decisions about budgets", exc_info=fault)


def _stops(service: Service) -> asyncio.Event:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    loop.add_signal_handler(signal.SIGHUP, service.on_hangup)
    return told


async def _either(*runs: Coroutine[Any, Any, object]) -> None:
    """Until the first of them is over; the others are cancelled."""
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def allow_files(most: int = MOST_FILES) -> int:
    """Use what the system allows: a stream takes two descriptors, shells often give 1,024. Returns the limit now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def _token(data: Path) -> tuple[Path, str]:
    """The admin token: $PLIMSOLL_ADMIN_TOKEN, or one made once and kept in the data directory for its owner only."""
    path = data / "admin.token"
    given = os.environ.get("PLIMSOLL_ADMIN_TOKEN", "")
    if given:
        return path, given
    try:
        return path, path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        token = secrets.token_urlsafe(24)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
        return path, token


def _say_ready(settings: Settings, port: int, admin_port: int, token_file: Path, console: str) -> None:
    url = f"{'https' if settings.tls else 'http'}://{in_url(settings.host)}:{port}"
    admin = f"http://{in_url(settings.admin_host)}:{admin_port}"
    more = f" console {console}" if console else ""
    sys.stdout.write(f"READY {url} admin {admin} token {token_file.resolve()}{more}\n")
    sys.stdout.flush()


def _admin_url(settings: Settings, port: int) -> str:
    """Where a process of this machine finds the admin port, also one that listens on all addresses."""
    own = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.admin_host, settings.admin_host)
    return f"http://{in_url(own)}:{port}"
