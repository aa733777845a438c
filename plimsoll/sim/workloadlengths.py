"""Reads token counts and times of a workload file: by median and sigma, or by a table of quantiles."""

from collections.abc import Callable
from fractions import Fraction

import msgspec

from plimsoll.errors import UnitError
from plimsoll.policy.section import Section
from plimsoll.sim.tenantprofile import Lengths
from plimsoll.units import parse_ratio, parse_tokens

_LONGEST = 86_400_000  # ms that any time drawn has at most
_NONE = Lengths(1.0)
Read = Callable[[Section, str], float]


def number(section: Section, key: str, default: float, most: int) -> float:
    """A number from 0 to `most`; a percentage is one too."""
    return float(section.ratio(key, Fraction(default), most=most))


def lengths(section: Section, key: str, default: Lengths) -> Lengths:
    """Token counts by median and sigma, or by a table of quantiles."""
    inner = section.section(key)
    if inner is None:
        return default
    quantiles = _quantiles(inner, _tokens, "{0%: 12, 50%: 800, 100%: 16000}")
    found = Lengths(
        median=float(inner.whole("median", int(default.median), parse=parse_tokens)),
        sigma=number(inner, "sigma", 0.0, most=5),
        most=inner.whole("most", int(quantiles[-1][1]) if quantiles else default.most, parse=parse_tokens),
        quantiles=quantiles,
    )
    _done(inner, quantiles)
    return found


def times(section: Section, key: str) -> Lengths | None:
    """Times in ms by median and sigma, or by a table; None where the key is not given."""
    inner = section.section(key)
    if inner is None:
        return None
    quantiles = _quantiles(inner, _milliseconds, "{0%: 10ms, 50%: 300ms, 100%: 5s}")
    if not inner.has("quantiles"):
        inner.required("median")
    median = inner.duration("median", 0.1) * 1000.0
    found = Lengths(median, number(inner, "sigma", 0.0, most=5), _LONGEST, quantiles)
    _done(inner, quantiles)
    return found


def counts(section: Section, key: str, most: int) -> tuple[int, Lengths | None]:
    """A whole number (1 where it is not given), or a spread of them by median and sigma or by a table."""
    if not section.has(key) or section.is_text(key):
        return section.whole(key, 1, most=most), None
    found = lengths(section, key, _NONE)
    if (found.quantiles and found.most > most) or found.median > most:
        section.fault(key, f"must be at most {most}")
    return 1, found if found.quantiles or found.most <= most else msgspec.structs.replace(found, most=most)


def _done(inner: Section, quantiles: tuple[tuple[float, float], ...]) -> None:
    if quantiles and (inner.has("median") or inner.has("sigma")):
        inner.fault("quantiles", "contradicts median and sigma", "give one of them")
    inner.done()


def _tokens(section: Section, key: str) -> float:
    return float(section.whole(key, 1, parse=parse_tokens))


def _milliseconds(section: Section, key: str) -> float:
    return section.duration(key, 0.001, zero=True) * 1000.0


def _quantiles(section: Section, read: Read, example: str) -> tuple[tuple[float, float], ...]:
    """A section of shares and lengths, both rising: {0%: 12, 50%: 800, 100%: 16000}."""
    inner = section.section("quantiles")
    if inner is None:
        return ()
    found: list[tuple[float, float]] = []
    for key in inner:
        share = _share(inner, key)
        value = read(inner, key)
        if share is None:
            continue
        if found and (float(share) <= found[-1][0] or value < found[-1][1]):
            inner.fault(key, "shares and what stands at them must rise")
        found.append((float(share), value))
    if len(found) < 2:
        section.fault("quantiles", "needs at least two", example)
        return ()
    return tuple(found)


def _share(section: Section, key: str) -> Fraction | None:
    """A key that is itself a ratio from 0 to 1 (`50%`); None, with a fault, where it is none."""
    try:
        ratio = parse_ratio(key)
    except UnitError as error:
        section.fault(key, str(error))
        return None
    if not 0 <= ratio <= 1:
        section.fault(key, "must be from 0% to 100%")
        return None
    return ratio
