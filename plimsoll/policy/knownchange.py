"""What is known beforehand of how budgets will be spent, for forecasts."""

from fractions import Fraction

from msgspec import Struct


class KnownChange(Struct, frozen=True):
    """From `from_at` on budgets are expected to be spent `factor` times as fast as before; for forecasts only."""

    from_at: float  # UTC epoch s
    factor: Fraction  # above 0
    tenants: tuple[str, ...] = ()  # (): all
    objectives: tuple[str, ...] = ()  # (): all
