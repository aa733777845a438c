"""What an objective says of one request: values only, `sli.py` makes them."""

from enum import StrEnum

from msgspec import Struct


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
