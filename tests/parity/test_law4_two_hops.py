"""Law 4 for prompts that one engine computes and another decodes, also where that comes to nothing."""

from collections import Counter
from fractions import Fraction
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.engine.features import Disaggregation
from plimsoll.governor.decisions import Decision, Dispatch, Settle
from plimsoll.policy.policy import Hedging, Scheduling
from plimsoll.sim.outage import Outage
from plimsoll.slo.outcome import Outcome, Reason
from tests.parity.histories import KEYED, POOL, SMALL, Around, same, wanted
from tests.parity.liveexchange import Wanted

TENANTS = ("acme", "noisy", "eel")
LINK = Disaggregation("a test", 1, 1, bytes_per_token=131_072.0, bandwidth=12e9, latency=0.003)
PROFILES = {"small": SMALL, "apart": replace(SMALL, name="apart", disaggregation=LINK)}
APART = replace(
    KEYED,
    pools=(
        replace(
            POOL,
            profile="apart",
            replicas=("http://r1", "http://r2"),
            prefill=("http://p1", "http://p2"),
            prefill_from=200,
        ),
    ),
)


def history(num: int, every: float = 0.06) -> list[Wanted]:
    """Long prompts and short ones, some shared, some impatient, some not streamed."""
    return [
        Wanted(
            every, TENANTS[i % 3], 2048 * (i % 2), 300 if i % 4 == 2 else 5000, 60, 200, i % 2 + 1,
            (inf, inf, 0.09, inf, 0.8)[i % 5], i % 7 != 3,
        )
        for i in range(num)
    ]  # fmt: skip


def prefilled(decisions: list[Decision]) -> Counter[str]:
    """How many prompts each engine was to compute."""
    return Counter(each.prefill for each in decisions if isinstance(each, Dispatch))


def rows(decisions: list[Decision]) -> list[tuple[str, str]]:
    return [(each.record.prefill, each.record.outcome) for each in decisions if isinstance(each, Settle)]


def test_prompts_are_computed_apart_alike() -> None:
    decisions = same(APART, history(150), Around(PROFILES))
    sent = prefilled(decisions)
    assert min(sent["http://p1"], sent["http://p2"], sent[""]) > 20, "short ones are computed where they are decoded"
    assert ("http://p1", Outcome.COMPLETED) in rows(decisions)
    assert Outcome.ABORTED in {outcome for _, outcome in rows(decisions)}


def test_first_hops_that_break_or_are_refused_fall_back_alike() -> None:
    down = (
        *[Outage(0.91 + 1.3 * n, f"http://p{n % 2 + 1}", 0.4) for n in range(6)],
        *[Outage(1.57 + 1.9 * n, f"http://r{n % 2 + 1}", 0.4) for n in range(4)],
    )
    decisions = same(APART, history(180), Around(PROFILES, down))
    sent = {each.request_id: each.prefill for each in decisions if isinstance(each, Dispatch)}
    alone = [
        each.record for each in decisions
        if isinstance(each, Settle) and sent.get(each.record.request_id) and not each.record.prefill
    ]  # fmt: skip
    assert any(record.outcome is Outcome.COMPLETED for record in alone), "the first hop failed, the answer came"
    assert any(each.attempt > 1 for each in decisions if isinstance(each, Dispatch)), "the second was refused"


def test_hedges_of_requests_whose_prompts_are_elsewhere_alike() -> None:
    rules = Scheduling(routing="round_robin", hedging=Hedging(Fraction(1, 5), Fraction(3, 4)))
    decisions = same(replace(APART, scheduling=rules), history(260, 0.08), Around(PROFILES))
    assert sum(isinstance(each, Dispatch) and each.reason is Reason.HEDGED for each in decisions) >= 3


@settings(max_examples=8, deadline=None)
@given(st.lists(wanted, min_size=1, max_size=25), st.sampled_from([0.2, 0.7, 1.9]))
def test_two_clocks_with_two_hops(clients: list[Wanted], down_at: float) -> None:
    same(APART, clients, Around(PROFILES, (Outage(down_at, "http://p1", 0.5), Outage(down_at + 0.3, "http://r1", 0.5))))
