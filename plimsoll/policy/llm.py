"""Recognises objectives on the latency of LLM engines among imported SLOs, and writes them as a part of a policy.

An SLO is recognised where it counts events, asks one metric that an engine exports for a latency, and cuts it at one
threshold. Anything else (a mean, a quantile over windows, time slices) promises something else, and is told.
"""

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from msgspec import Struct

from plimsoll.policy.objective import Sli
from plimsoll.policy.slospec import Budgeting, Imported, Indicator, Slo, dns_label
from plimsoll.policy.yamltext import dump

METRICS: Final = {
    "vllm:time_to_first_token_seconds": Sli.TTFT,
    "sglang:time_to_first_token_seconds": Sli.TTFT,
    "trtllm_time_to_first_token_seconds": Sli.TTFT,
    "gen_ai_server_time_to_first_token_seconds": Sli.TTFT,
    "gen_ai_server_time_to_first_token": Sli.TTFT,
    "gen_ai.server.time_to_first_token": Sli.TTFT,
    "vllm:inter_token_latency_seconds": Sli.ITL,
    "vllm:time_per_output_token_seconds": Sli.ITL,  # its name before vLLM 0.11
    "sglang:inter_token_latency_seconds": Sli.ITL,
    "vllm:request_time_per_output_token_seconds": Sli.TPOT,
    "sglang:request_time_per_output_token_seconds": Sli.TPOT,
    "trtllm_time_per_output_token_seconds": Sli.TPOT,
    "tgi_request_mean_time_per_token_duration": Sli.TPOT,
    "gen_ai_server_time_per_output_token_seconds": Sli.TPOT,
    "gen_ai_server_time_per_output_token": Sli.TPOT,
    "gen_ai.server.time_per_output_token": Sli.TPOT,
    "vllm:e2e_request_latency_seconds": Sli.E2E,
    "sglang:e2e_request_latency_seconds": Sli.E2E,
    "trtllm_e2e_request_latency_seconds": Sli.E2E,
    "tgi_request_duration": Sli.E2E,
    "gen_ai_server_request_duration_seconds": Sli.E2E,
    "gen_ai_server_request_duration": Sli.E2E,
    "gen_ai.server.request.duration": Sli.E2E,
}
"""Histograms of seconds, as engines and the OpenTelemetry GenAI conventions name them."""
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_:.]*")
_SUFFIXES: Final = ("_bucket", "_count", "_sum")
_LE: Final = re.compile(r"""\ble\s*=\s*["']([^"']+)["']""")
_FRACTION: Final = re.compile(r"\bhistogram_fraction\s*\(\s*0\s*,\s*([0-9.eE+-]+)\s*,")
_INSIDE: Final = re.compile(r"\{[^}]*\}|\[[^]]*\]")  # selectors and ranges may hold a minus
_CUT_KEYS: Final = frozenset({"latency", "threshold_bucket"})


class Recognised(Struct, frozen=True):
    """An SLO that a policy can promise."""

    slo: Slo
    sli: Sli
    below: Fraction  # s


def recognise(slo: Slo) -> Recognised | str:
    """The objective that an SLO is, or why it is none of ours."""
    if slo.indicator is None:
        return "its indicator is not among the files"
    asked = {role: query.text for role, query in slo.indicator.queries.items()}
    bases = {base for text in asked.values() for base in _bases(text)} & METRICS.keys()
    if not bases:
        return "asks no latency metric of an engine"
    if len(bases) > 1:
        return f"asks several metrics: {', '.join(sorted(bases))}"
    if slo.budgeting is not Budgeting.OCCURRENCES:
        return f"counts by {slo.budgeting}; a policy counts requests and tokens"
    below = _threshold(slo, slo.indicator, asked)
    if isinstance(below, str):
        return below
    return Recognised(slo, METRICS[bases.pop()], below)


def policy_fragment(imported: Imported) -> tuple[str, list[tuple[str, str]]]:
    """`tiers` of a policy for what was recognised ("" where nothing was), and names of the others with reasons.

    SLOs of one service, or with one label `tier`, make a tier. The engine's clock starts at the engine, the policy's
    at the gateway: the same threshold is a stricter promise there.
    """
    tiers: dict[str, list[dict[str, Any]]] = {}
    others = []
    for slo in imported.slos:
        found = recognise(slo)
        if isinstance(found, str):
            others.append((slo.meta.name, found))
            continue
        objectives = tiers.setdefault(dns_label((slo.meta.labels.get("tier") or (slo.service,))[0]), [])
        objectives.append(_objective(found, objectives))
    form = [{"name": name, "rank": rank, "objectives": each} for rank, (name, each) in enumerate(tiers.items())]
    comment = (
        f"{len(imported.slos) - len(others)} of {len(imported.slos)} imported SLOs. Engines count from arrival at the"
        " engine, a policy from arrival\nat the gateway: review thresholds, ranks and shares."
    )
    return (dump([{"tiers": form}], comment) if form else ""), others


def _objective(found: Recognised, before: list[dict[str, Any]]) -> dict[str, Any]:
    form: dict[str, Any] = {
        "sli": found.sli.value,
        "below": _duration(found.below),
        "target": _percent(found.slo.target),
    }
    if any(other["sli"] == found.sli.value for other in before):
        return {"name": found.slo.meta.name} | form
    return form


def _threshold(slo: Slo, indicator: Indicator, asked: dict[str, str]) -> Fraction | str:
    """Seconds below which an event is good, or why there are none."""
    if "metric" in asked:
        cut = slo.op in {"lte", "lt"} and _CUT_KEYS & indicator.queries["metric"].spec.keys()
        return slo.value if cut and slo.value is not None else "compares a value over windows, not each request"
    whole = " ".join(asked.values())
    cuts = {text for text in _LE.findall(whole) if text not in {"+Inf", "Inf"}} or set(_FRACTION.findall(whole))
    reason = ""
    if "histogram_quantile" in whole:
        reason = "compares a quantile over windows, which says nothing on a share of requests"
    elif len(cuts) != 1:
        reason = "has no threshold" if not cuts else f"has several thresholds: {', '.join(sorted(cuts))}"
    elif _counts_fast_as_bad(asked):
        reason = "counts fast events as bad, as far as can be seen"
    return reason or _number(cuts.pop())


def _counts_fast_as_bad(asked: dict[str, str]) -> bool:
    """Whether the events below the threshold are the bad ones: such queries subtract just where others do not."""
    fast_is_good = "good" in asked or "success" in asked
    subtracts = "-" in _INSIDE.sub("", asked.get("good") or " ".join(asked.values()))
    return fast_is_good is subtracts


def _number(text: str) -> Fraction | str:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return "has a threshold that is no number"


def _bases(text: str) -> set[str]:
    found = set()
    for name in _NAME.findall(text):
        suffix = next((each for each in _SUFFIXES if name.endswith(each)), "")
        found.add(name.removesuffix(suffix))
    return found


def _duration(seconds: Fraction) -> str:
    ms = seconds * 1000
    if ms.denominator == 1:
        return f"{ms // 1000}s" if ms % 1000 == 0 else f"{ms}ms"
    return f"{_decimal(ms)}ms"


def _percent(target: Fraction) -> str:
    return f"{_decimal(target * 100)}%"


def _decimal(value: Fraction) -> str:
    """Exact where the value has finitely many digits, as numbers of files do."""
    return f"{(Decimal(value.numerator) / Decimal(value.denominator)).normalize():f}"
