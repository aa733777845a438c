"""What an objective says of one request: values only, `sli.py` makes them."""

from enum import StrEnum

from msgspec import Struct

from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import Outcome, Reason


class Judgement(StrEnum):
    """What an objective says of one request."""

    GOOD = "good"
    BAD = "bad"
    CENSORED = "censored"  # the client left before the threshold: nobody knows
    EXCLUDED = "excluded"


class Charge(StrEnum):
    """Whose account a bad event is put on (DESIGN, "Charge")."""

    OURS = "ours"
    UPSTREAM = "upstream"
    JOINT = "joint"
    INFEASIBLE = "infeasible"
    CLIENT = "client"  # it held its own answer back
    UNLABELLED = "unlabelled"


class Verdict(Struct, frozen=True, array_like=True, gc=False):
    """One objective's word on one request. For token objectives `judgement` is that of its worst token."""

    objective: str
    judgement: Judgement
    num_good: int  # 1 or 0 for request objectives
    num_bad: int
    charge: Charge | None = None  # set where num_bad > 0


class Facts(Struct, frozen=True, gc=False):
    """All that judging one ended request needs. Instants in s on one clock, durations in s."""

    outcome: Outcome
    reason: Reason
    arrived_at: float
    ended_at: float
    timing: Timing
    generative: bool = True  # False: embeddings and whatever else makes no tokens
    streaming: bool = True
    num_choices: int = 1
    judge_non_streaming: bool = False
    infeasible_deadline: bool = False  # its deadline was below the unloaded prediction
    upstream_time: float | None = None  # s spent before us; None: not reported
    upstream_trusted: bool = True  # False: reported by a header that nothing bounds
    baseline_ttft: float | None = None  # s, our own median (or unloaded prediction); None: not known
    baseline_tpot: float | None = None  # s
    upstream_baseline: float = 0.0  # s, upstream's own median for this cause; 0 until 100 were seen
    upstream_vouched: bool = True  # False: the tenant's own word
