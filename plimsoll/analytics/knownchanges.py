"""What a policy knows beforehand of how a budget will be spent: changes of pace, and windows that spend nothing."""

from typing import NamedTuple

from plimsoll.analytics.forecast import Pause, Step
from plimsoll.policy.budget import BudgetRules


class Ahead(NamedTuple):
    """As `forecast` takes it."""

    steps: tuple[Step, ...] = ()
    pauses: tuple[Pause, ...] = ()


NOTHING_KNOWN = Ahead()


def known_ahead(rules: BudgetRules, tenant: str, objective: str) -> Ahead:
    """Of one objective of one tenant."""
    return Ahead(
        tuple(
            [
                Step(change.from_at, float(change.factor))
                for change in rules.changes
                if tenant in (change.tenants or (tenant,)) and objective in (change.objectives or (objective,))
            ]
        ),
        tuple(
            [
                Pause(window.from_at, window.until_at)
                for window in rules.exceptions
                if tenant in (window.tenants or (tenant,))
            ]
        ),
    )
