"""An objective: one SLI with a threshold, a target ratio and where its clock starts."""

from enum import StrEnum
from fractions import Fraction

from msgspec import Struct


class Sli(StrEnum):
    """What is measured. `itl` counts tokens, the others requests."""

    TTFT = "ttft"
    ITL = "itl"
    TPOT = "tpot"
    E2E = "e2e"
    AVAILABILITY = "availability"


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
