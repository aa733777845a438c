"""Who sends more than before: by itself, and beside what the other tenants do.

Where all grow alike, nobody's growth is the cause: that is the load of all (or only an hour of the day).
"""

from statistics import median
from typing import Final

from plimsoll.diagnosis.case import MORE, Case, Found
from plimsoll.diagnosis.signals import TenantSignal

LONG: Final = 4096
"""Tokens from which a prompt is long whatever others send."""
MIN_HITS: Final = 128
"""Tokens a prompt below which the prefix cache did little before."""
MISSING: Final = 0.3
"""Share of them lost from which that may be the cause."""


def growth(signal: TenantSignal, usual: float = 1.0) -> Found:
    """How much more a tenant sends than before, while others send `usual` times as much: 0 (no more) to 1 (twice)."""
    if signal.appeared:
        return 1.0, (f"{signal.name} sent next to nothing before",), ()
    if signal.prompt_rate is None:
        return 0.0, (), ("the log has no time before to compare with",)
    told = f"{signal.name} sent {signal.prompt_rate:.1f} times the prompt tokens a second of before"
    times = signal.prompt_rate / usual
    return (max(0.0, min(1.0, times - 1.0)), (told,), ()) if times > MORE else (0.0, (), (told,))


def usual_growth(case: Case, name: str, figure: str = "rate") -> float:
    """A figure's quotient during ÷ before of the middle one of the tenants but `name`, at least 1."""
    others = [getattr(each, figure) for each in case.signals.tenants if each.name != name]
    known = [ratio for ratio in others if ratio is not None]
    return max(1.0, median(known)) if known else 1.0


def added_share(case: Case, name: str) -> float:
    """A tenant's share of the prompt tokens a second that came on top of those of before; 0.0: it added none."""
    more = {each.name: _added(each) for each in case.signals.tenants}
    total = sum(more.values())
    return more.get(name, 0.0) / total if total > 0.0 else 0.0


def _added(signal: TenantSignal) -> float:
    """Prompt tokens during that there would not have been at the rate of before."""
    return max(0.0, _sent(signal) * (1.0 - 1.0 / signal.prompt_rate)) if signal.prompt_rate else 0.0


def sent_share(case: Case, signal: TenantSignal) -> float:
    """A tenant's share of all prompt tokens during."""
    total = sum(_sent(each) for each in case.signals.tenants)
    return _sent(signal) / total if total > 0.0 else 0.0


def _sent(signal: TenantSignal) -> float:
    return signal.num_during * (signal.prompt_during or 0.0)


def has_longer_prompts(case: Case, signal: TenantSignal) -> bool:
    """Whether growth is in length rather than in number; of who is new, whether its prompts are far above others'."""
    if signal.prompt is None:
        others = [each for each in case.signals.tenants if each.name != signal.name and each.prompt_during is not None]
        num = sum(each.num_during for each in others)
        mean = sum((each.prompt_during or 0.0) * each.num_during for each in others) / num if num else LONG / 4
        return (signal.prompt_during or 0.0) >= min(LONG, 4 * mean)
    return signal.prompt >= 1.5 and (signal.rate is None or signal.prompt > signal.rate)


def one_alone_grew(case: Case) -> bool:
    """Whether one tenant sends more and others are known not to: what is too much is then not the load of all."""
    known = [
        each.appeared or max(each.rate or 0.0, each.prompt_rate or 0.0) >= MORE
        for each in case.signals.tenants
        if each.appeared or each.rate is not None
    ]
    return len(known) >= 2 and sum(known) == 1


def lost_hits(signal: TenantSignal) -> float:
    """Of the prompt tokens that a tenant found in the prefix cache, the share that it finds no more."""
    if signal.hits is None or signal.hits_before is None or signal.hits_before < MIN_HITS:
        return 0.0
    return max(0.0, 1.0 - signal.hits / signal.hits_before)
