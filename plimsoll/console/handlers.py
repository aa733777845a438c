"""Pages 2 to 8: for each, what the request asks, what is read for it, and which view and template show it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiohttp import web

from plimsoll.analytics.capability import Capabilities
from plimsoll.console import cacheview, capabilityview, diagnoseview, journalview, replicasview, tenantview
from plimsoll.console.logreading import HOUR
from plimsoll.console.tenantreading import TenantLog, read_tenant
from plimsoll.diagnosis.explain import Explanation
from plimsoll.diagnosis.findings import Findings
from plimsoll.storage.chronicle import KINDS, JournalEntry, Wanted
from plimsoll.storage.inbox import Inbox

if TYPE_CHECKING:
    from plimsoll.console.app import Console

Page = Callable[["Console", web.Request], Awaitable[web.Response]]


async def tenants(console: "Console", request: web.Request) -> web.Response:
    """Page 2: the table."""
    return console.page(request, "tenants", "tenants.html", tenantview.tenants_view(console.store.seen()))


async def tenant(console: "Console", request: web.Request) -> web.Response:
    """Page 2: one tenant."""
    store, name = console.store, tenant_of(console, request)
    window = request.query.get("window", "24h")
    window = window if window in tenantview.WINDOWS else "24h"
    since, until = _bounds(console, tenantview.WINDOWS[window])
    log: TenantLog = await console.asked(request, "tenants", read_tenant, store.root, name, since, until)
    standings = await store.off(Inbox(store.root).standings)
    view = tenantview.tenant_view(store.seen(), log, window, standings, until)
    return console.page(request, "tenants", "tenant.html", view)


async def diagnose(console: "Console", request: web.Request) -> web.Response:
    """Page 3: the path for one tenant, by default the one that is worst off."""
    store = console.store
    asked = request.query.get("tenant", "")
    findings: Findings | None = store.findings.value
    since, until = _bounds(console, HOUR)
    if findings is None or (asked and all(each.tenant != asked for each in findings.tenants)):
        found: Findings = await console.asked(
            request, "diagnose", store.readers.diagnose, store.root, asked or None, since, until
        )
        findings = found
    name = asked or next((each.tenant for each in findings.tenants), "")
    log: TenantLog | None = None
    if name:
        log = await console.asked(request, "diagnose", _without_hours, store.root, name, since, until)
    view = diagnoseview.diagnose_view(store.seen(), findings, name, log)
    return console.page(request, "diagnose", "diagnose.html", view)


async def one_request(console: "Console", request: web.Request) -> web.Response:
    """Page 3, its end: one request."""
    store = console.store
    number = request.match_info["request"]
    found: Explanation = await console.asked(request, "diagnose", store.readers.explain, store.root, number)
    return console.page(request, "diagnose", "request.html", diagnoseview.request_view(found))


async def cache(console: "Console", request: web.Request) -> web.Response:
    """Page 4."""
    window = request.query.get("window", "1h")
    window = window if window in tenantview.WINDOWS else "1h"
    since, until = _bounds(console, tenantview.WINDOWS[window])
    log: cacheview.CacheLog = await console.asked(
        request, "cache", cacheview.read_cache, console.store.root, since, until
    )
    zone = console.store.policy.service.timezone
    return console.page(request, "cache", "cache.html", cacheview.cache_view(log, window, zone))


async def replicas(console: "Console", request: web.Request) -> web.Response:
    """Page 5."""
    return console.page(request, "replicas", "replicas.html", replicasview.replicas_view(console.store.seen()))


async def journal(console: "Console", request: web.Request, notice: str = "") -> web.Response:
    """Page 6."""
    store, query = console.store, request.query
    span = query.get("span", "24h")
    span = span if span in journalview.SPANS else "24h"
    kind = query.get("kind") or None
    wanted = Wanted(
        since=store.at - journalview.SPANS[span],
        tenant=query.get("tenant") or None,
        kind=kind if kind in KINDS else None,
        reason=query.get("reason") or None,
    )
    found: list[JournalEntry] = await console.asked(request, "journal", journalview.read_journal, store.root, wanted)
    view = journalview.journal_view(found, wanted, span, store.policy, notice)
    return console.page(request, "journal", "journal.html", view)


async def capability(console: "Console", request: web.Request) -> web.Response:
    """Page 8."""
    store = console.store
    found: Capabilities = await console.asked(
        request, "capability", capabilityview.read_capabilities, store.root, store.policy, store.at
    )
    return console.page(request, "capability", "capability.html", capabilityview.capability_view(found))


def tenant_of(console: "Console", request: web.Request) -> str:
    """The tenant of the path: one of the policy's, or one that came."""
    name = request.match_info["tenant"]
    hour = console.store.hour.value
    known = {each.name for each in console.store.policy.tenants}
    known |= {group.labels["tenant"] for group in hour.tenants} if hour else set()
    if name not in known:
        raise console.failed(request, "tenants", 404, f"no tenant is named {name!r}")
    return name


def _without_hours(root: Path, name: str, since: float, until: float) -> TenantLog:
    return read_tenant(root, name, since, until, hours=False)


def _bounds(console: "Console", span: float) -> tuple[float, float]:
    """The last so many s, no longer than the log."""
    until = console.store.at
    first = console.store.span.first
    since = until - span
    return (max(since, first) if first is not None and first < until else since), until


PAGES: Final[dict[str, Page]] = {
    "/tenants": tenants,
    "/tenants/{tenant}": tenant,
    "/diagnose": diagnose,
    "/requests/{request}": one_request,
    "/cache": cache,
    "/replicas": replicas,
    "/journal": journal,
    "/capability": capability,
}
