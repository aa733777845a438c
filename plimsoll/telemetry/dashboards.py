"""Grafana dashboards over `/metrics`, one for each page of the console that metrics can fill: values ready for JSON.

Every panel says its unit and how many requests stand behind it; a P99 of too few is absent, as in the rules.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from plimsoll.telemetry.rules import MIN_FOR_P99

SCHEMA: Final = 39  # Grafana 10 and later
WIDTH: Final = 12
HEIGHT: Final = 8
_HERE: Final = 'tenant=~"$tenant",tier=~"$tier"'


class Query(Struct, frozen=True):
    """One line of PromQL and what its series are called (`{{label}}`)."""

    expr: str
    legend: str


class Panel(Struct, frozen=True):
    """One chart over time, or a number where `kind` is "stat"."""

    title: str
    unit: str  # Grafana's: s, short, percentunit, reqps …
    queries: tuple[Query, ...]
    text: str = ""
    kind: str = "timeseries"
    width: int = WIDTH


class Dashboard(Struct, frozen=True):
    """One page."""

    name: str
    title: str
    text: str
    panels: tuple[Panel, ...]


def dashboards(*, native: bool = False) -> list[Dashboard]:
    """All of them; `native`: latencies by native histograms."""
    return [_line(native), _tenants(native), _diagnose(native), _cache(native), _replicas(), _decisions()]


def quantile(share: float, name: str, by: str, *, native: bool, least: int = 1) -> str:
    """A latency quantile over the panel's interval by these labels; absent below `least` values."""
    metric = f"plimsoll_{name}_seconds"
    if native:
        rate = f"sum by ({by}) (rate({metric}{{{_HERE}}}[$__rate_interval]))"
        count = f"histogram_count(sum by ({by}) (increase({metric}{{{_HERE}}}[$__range])))"
    else:
        rate = f"sum by ({by}, le) (rate({metric}_bucket{{{_HERE}}}[$__rate_interval]))"
        count = f"sum by ({by}) (increase({metric}_count{{{_HERE}}}[$__range]))"
    return f"histogram_quantile({share}, {rate}) and {count} >= {least}"


def _line(native: bool) -> Dashboard:
    ratio = f"({_p99('ttft', 'tenant', native)}) / ({quantile(0.5, 'ttft', 'tenant', native=native)} > 0)"
    return Dashboard(
        "line",
        "Plimsoll · the line",
        "How full each pool is, whose tail is wide, which budgets burn.",
        (
            Panel("Headroom", "percentunit", (Query("plimsoll_pool_headroom_ratio", "{{pool}}"),), kind="stat"),
            Panel("Saturation", "percentunit", (Query("plimsoll_pool_saturation_ratio", "{{pool}}"),), "100 % holds."),
            Panel("P99 ÷ P50 of TTFT by tenant", "short", (Query(ratio, "{{tenant}}"),), "1.5 to 2.5 is normal."),
            Panel(
                "Bad events, share of judged",
                "percentunit",
                (Query(_bad_ratio("tenant, objective"), "{{tenant}} {{objective}}"),),
                "Against 1 − target: the rules (`plimsoll rules`) say when that is worth waking somebody.",
            ),
        ),
    )


def _tenants(native: bool) -> Dashboard:
    attained = f"1 - ({_bad_ratio('tenant, objective')})"
    ended = f"sum by (tenant) (rate(plimsoll_requests_total{{{_HERE}}}[$__rate_interval]))"
    return Dashboard(
        "tenants",
        "Plimsoll · tenants",
        "Tails, attainment and load by tenant.",
        (
            Panel("Requests", "reqps", (Query(ended, "{{tenant}}"),)),
            Panel("Attainment", "percentunit", (Query(attained, "{{tenant}} {{objective}}"),)),
            *(
                Panel(
                    f"{words}: P50 and P99",
                    "s",
                    (
                        Query(quantile(0.5, name, "tenant", native=native), "{{tenant}} P50"),
                        Query(_p99(name, "tenant", native), "{{tenant}} P99"),
                    ),
                    f"P99 from {MIN_FOR_P99} values on.",
                )
                for name, words in (("ttft", "Time to first token"), ("itl", "Gaps between tokens"), ("e2e", "Whole"))
            ),
            Panel("Tokens", "short", tuple(_tokens(kind) for kind in ("prompt", "output"))),
        ),
    )  # fmt: skip


def _diagnose(native: bool) -> Dashboard:
    waiting = 'sum by (tenant, pool) (plimsoll_waiting_requests{tenant=~"$tenant",tier=~"$tier"})'
    not_done = f'sum by (reason) (rate(plimsoll_requests_total{{{_HERE},outcome!="completed"}}[$__rate_interval]))'
    return Dashboard(
        "diagnose",
        "Plimsoll · diagnose",
        "Where time goes: our queue, or the engine. `plimsoll diagnose` names the cause.",
        (
            Panel("Waiting now", "short", (Query(waiting, "{{tenant}} {{pool}}"),)),
            Panel("Our queue, P99", "s", (Query(_p99("queued", "tenant", native), "{{tenant}}"),)),
            Panel("First token, P99", "s", (Query(_p99("ttft", "tenant", native), "{{tenant}}"),)),
            Panel("Ends other than completed", "reqps", (Query(not_done, "{{reason}}"),)),
        ),
    )


def _cache(native: bool) -> Dashboard:
    hits = (
        f"sum by (tenant) (rate(plimsoll_cached_tokens_total{{{_HERE}}}[$__rate_interval]))"
        f" / (sum by (tenant) (rate(plimsoll_prompt_tokens_total{{{_HERE}}}[$__rate_interval])) > 0)"
    )
    return Dashboard(
        "cache",
        "Plimsoll · cache",
        "Hit ratio against P99, KV in use.",
        (
            Panel("Prompt tokens from cache", "percentunit", (Query(hits, "{{tenant}}"),)),
            Panel("First token, P99", "s", (Query(_p99("ttft", "tenant", native), "{{tenant}}"),)),
            Panel("KV cache in use, as engines say", "percentunit", (_replica("kv_usage_ratio"),)),
            Panel("Reserved by us", "percentunit", (Query(_RESERVED, "{{replica}}"),)),
        ),
    )


def _replicas() -> Dashboard:
    waiting = "sum by (pool, tier) (plimsoll_waiting_requests)"
    return Dashboard(
        "replicas",
        "Plimsoll · replicas and queues",
        "What the governor sees of each replica.",
        (
            Panel("Up", "short", (_replica("up"),), kind="stat", width=24),
            Panel("Reserved", "percentunit", (Query(_RESERVED, "{{replica}}"),)),
            Panel("In flight", "short", (_replica("in_flight_requests"),)),
            Panel("In the engine", "short", (_replica("running_requests"), _replica("queued_requests"))),
            Panel("Age of reports", "s", (_replica("report_age_seconds"),)),
            Panel("Waiting with us", "short", (Query(waiting, "{{pool}} {{tier}}"),)),
            Panel("Degradation level", "short", (Query("plimsoll_degradation_level", "level"),)),
        ),
    )  # fmt: skip


def _decisions() -> Dashboard:
    by_reason = f"sum by (reason) (rate(plimsoll_requests_total{{{_HERE}}}[$__rate_interval]))"
    return Dashboard(
        "decisions",
        "Plimsoll · decisions",
        "Why requests ended as they did; `plimsoll journal` has each one.",
        (
            Panel("Ends by reason", "reqps", (Query(by_reason, "{{reason}}"),)),
            Panel("Policy in force", "short", (Query("plimsoll_policy_info", "{{version}}"),), kind="stat"),
            Panel("Room for the journal", "bytes", (Query("plimsoll_journal_room_bytes", "{{mode}}"),)),
            Panel("Clock ahead", "s", (Query("plimsoll_clock_ahead_seconds", "ahead"),)),
        ),
    )


_RESERVED: Final = "plimsoll_replica_reserved_units / (plimsoll_replica_capacity_units > 0)"


def _p99(name: str, by: str, native: bool) -> str:
    return quantile(0.99, name, by, native=native, least=MIN_FOR_P99)


def _bad_ratio(by: str) -> str:
    counted = f"plimsoll_verdicts_total{{{_HERE},verdict=~"
    bad = f'sum by ({by}) (rate({counted}"bad"}}[$__rate_interval]))'
    return f'{bad} / (sum by ({by}) (rate({counted}"good|bad"}}[$__rate_interval])) > 0)'


def _tokens(kind: str) -> Query:
    rate = f"rate(plimsoll_{kind}_tokens_total{{{_HERE}}}[$__rate_interval])"
    return Query(f"sum by (tenant) ({rate})", f"{{{{tenant}}}} {kind}")


def _replica(name: str) -> Query:
    return Query(f"plimsoll_replica_{name}", f"{{{{replica}}}} {name.partition('_')[0]}")


def grafana(board: Dashboard) -> dict[str, Any]:
    """The dashboard as Grafana imports it; the data source is a variable, so any Prometheus does."""
    return {
        "uid": f"plimsoll-{board.name}",
        "title": board.title,
        "description": board.text,
        "tags": ["plimsoll"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "templating": {"list": [_source(), _label("tenant"), _label("tier")]},
        "links": [{"type": "dashboards", "tags": ["plimsoll"], "title": "Plimsoll", "asDropdown": True}],
        "panels": _placed(board.panels),
    }


def _placed(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    found, left, top = [], 0, 0
    for number, panel in enumerate(panels, 1):
        if left + panel.width > 2 * WIDTH:
            left, top = 0, top + HEIGHT
        found.append(_panel(panel, number, {"x": left, "y": top, "w": panel.width, "h": HEIGHT}))
        left += panel.width
    return found


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "gridPos": place,
        "datasource": source,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": query.expr, "legendFormat": query.legend, "datasource": source}
            for at, query in enumerate(panel.queries)
        ],
    }


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _label(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": f"label_values(plimsoll_requests_total, {name})",
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
