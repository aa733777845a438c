"""An objective: one SLI with a threshold, a target ratio and where its clock starts."""

from enum import StrEnum
from fractions import Fraction
from typing import Final

from msgspec import Struct

RUN: Final = "run"
"""Name of the objective of runs in rows, ledger and pages; no other has it."""


class Sli(StrEnum):
    """What is measured. `itl` counts tokens, the others requests."""

    TTFT = "ttft"
    ITL = "itl"
    TPOT = "tpot"
    E2E = "e2e"
    AVAILABILITY = "availability"
    RUN = "run"  # of agents' runs: a tier's `run`, never one of its objectives


class Origin(StrEnum):
    """Where the objective's clock starts."""

    GATEWAY = "gateway"  # arrival here
    USER = "user"  # arrival less the upstream time that the request reports


class Objective(Struct, frozen=True):
    """One promise. `name` is unique in its tier and is the key in rows, ledger, metrics and pages."""

    name: str
    sli: Sli
    below: float  # threshold, s; inf for availability
    target: Fraction  # the SLO, 0 < target < 1, exact
    contract: Fraction | None = None  # the SLA, looser than the target
    origin: Origin = Origin.GATEWAY

    @property
    def counts_tokens(self) -> bool:
        """Whether its unit is the token, not the request."""
        return self.sli is Sli.ITL

    @property
    def unit(self) -> str:
        """What it counts."""
        if self.sli is Sli.RUN:
            return "runs"
        return "tokens" if self.counts_tokens else "requests"


class RunObjective(Struct, frozen=True):
    """What is promised of agents' runs: the requests of one session, judged when nothing came for `idle`."""

    below: float  # s, from the first request's start to the last one's end
    target: Fraction  # 0 < target < 1, exact
    idle: float = 300.0  # s without anything under way after which a run is over
    half_life: float | None = None  # s; turns weigh by their age at the run's end; None: all the same

    @property
    def objective(self) -> Objective:
        """As an objective, whose budget the books keep like any other's."""
        return Objective(RUN, Sli.RUN, self.below, self.target)
