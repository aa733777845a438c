"""The one place that reads and prints durations, ratios, counts, token counts and sizes.

Numbers are read exactly (as fractions of decimal digits) and rounded once, to the type that is returned; what is
printed is rounded for people and never goes into a comparison.
"""

import re
from fractions import Fraction
from math import inf, isnan
from typing import Final

from plimsoll.errors import UnitError

_NUMBER: Final = r"[+-]?(?:\d[\d_]*(?:\.\d+)?|\.\d+)"
_QUANTITY: Final = re.compile(rf"\s*({_NUMBER})\s*([a-zA-Zµμ%]*)\s*")
_PART: Final = re.compile(rf"\s*({_NUMBER})\s*([a-zA-Zµμ]+)\s*")

_DURATIONS: Final[dict[str, Fraction]] = {
    "ns": Fraction(1, 1_000_000_000),
    "us": Fraction(1, 1_000_000),
    "µs": Fraction(1, 1_000_000),
    "μs": Fraction(1, 1_000_000),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "sec": Fraction(1),
    "m": Fraction(60),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86_400),
    "w": Fraction(604_800),
}
_DECIMAL: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY: Final = {"": 1, "k": 2**10, "K": 2**10, "M": 2**20}
_SIZES: Final = {
    "": 1, "B": 1,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9,
    "k": 2**10, "K": 2**10, "M": 2**20, "G": 2**30, "KiB": 2**10, "kiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip

LONGEST: Final = 10_000_000_000.0
"""s, three hundred years: a duration beyond it is a slip."""
_LARGEST: Final = 2**63 - 1


def parse_duration(text: str) -> float:
    """Seconds: "800ms", "1.5s", "5min", "1h30min", "30d". A bare number is refused: nobody knows its unit.

    May be negative or zero; what is allowed is the caller's to say.
    """
    total, at = Fraction(0), 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or part[2] not in _DURATIONS or (at > 0 and part[1][0] in "+-"):
            raise _not_a("duration", text, "a number with a unit of ns, us, ms, s, min, h, d or w", "800ms or 1h30min")
        total += _number(part[1]) * _DURATIONS[part[2]]
        at = part.end()
    if not text.strip():
        raise _not_a("duration", text, "a number with a unit", "800ms or 1h30min")
    if abs(total) > LONGEST:
        raise UnitError(f"{text!r} is longer than 300 years")
    return float(total)


def parse_ratio(text: str) -> Fraction:
    """An exact ratio: "99.5%", "0.995" and "1" alike; not held to 0 … 1, which is the caller's to say."""
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in {"", "%"}:
        raise _not_a("ratio", text, "a percentage or a number from 0 to 1", "99.5% or 0.995")
    return _number(match[1]) / (100 if match[2] else 1)


def parse_count(text: str) -> int:
    """A whole number with decimal suffixes: "64", "400k" is 400,000, "3M" is 3,000,000."""
    return _whole(
        "count", text, _DECIMAL, "a whole number, k, M or G after it being thousands, millions …", "64 or 400k"
    )


def parse_tokens(text: str) -> int:
    """A length in tokens, as model cards write them: "32k" is 32,768, "1M" is 1,048,576."""
    return _whole("token count", text, _BINARY, "a whole number, k being 1,024", "32k or 8192")


def parse_size(text: str) -> int:
    """Bytes: "32MiB" is 33,554,432, "64kB" is 64,000, a bare number is bytes."""
    return _whole("size", text, _SIZES, "a number of bytes with B, kB, MB, KiB, MiB or GiB", "32MiB")


def format_duration(seconds: float, digits: int = 3) -> str:
    """For people, to that many significant digits: 0.0312 → "31.2ms", 5400 → "90min", inf → "∞"."""
    if isnan(seconds):
        raise ValueError("no duration: NaN")
    if abs(seconds) == inf:
        return "∞" if seconds > 0 else "-∞"
    size = abs(seconds)
    for limit, scale, unit in ((1e-6, 1e-9, "ns"), (1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (120.0, 1.0, "s"),
                               (7200.0, 60.0, "min"), (172_800.0, 3600.0, "h")):  # fmt: skip
        if size < limit and size > 0:
            return f"{_digits(seconds / scale, digits)}{unit}"
    return f"{_digits(seconds / 86_400.0, digits)}d" if seconds else "0s"


def format_ratio(ratio: Fraction | float, digits: int = 5) -> str:
    """As a percentage: Fraction(199, 200) → "99.5%"."""
    return f"{_digits(float(ratio * 100), digits)}%"


def format_count(count: float, digits: int = 3) -> str:
    """With a decimal suffix above ten thousand: 400,000 → "400k"; below, whole numbers are shown whole."""
    size = abs(count)
    if size < 10_000 and count == int(count):
        return str(int(count))
    for limit, scale, suffix in ((1e3, 1.0, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (1e12, 1e9, "G")):
        if size < limit:
            return f"{_digits(count / scale, digits)}{suffix}"
    return f"{_digits(count / 1e12, digits)}T"


def format_tokens(tokens: int) -> str:
    """A length in tokens as it is written in a policy: 32768 → "32k"; exact, so 33000 stays "33000"."""
    return f"{tokens >> 10}k" if tokens and tokens % 1024 == 0 else str(tokens)


def format_size(num_bytes: int) -> str:
    """Exact where it is a multiple: 33554432 → "32MiB", 1000 → "1000B"."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if num_bytes and num_bytes % (1 << shift) == 0:
            return f"{num_bytes >> shift}{unit}"
    return f"{num_bytes}B"


def _whole(kind: str, text: str, suffixes: dict[str, int], expected: str, example: str) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in suffixes:
        raise _not_a(kind, text, expected, example)
    value = _number(match[1]) * suffixes[match[2]]
    if value.denominator != 1:
        raise _not_a(kind, text, expected, example)
    if abs(value) > _LARGEST:
        raise UnitError(f"{text!r} is larger than any {kind} can be")
    return int(value)


def _number(digits: str) -> Fraction:
    if len(digits) > 40:
        raise UnitError(f"{digits[:20]!r}… has {len(digits)} digits")
    return Fraction(digits.replace("_", ""))


def _digits(value: float, digits: int) -> str:
    """`%g` without exponents: significant digits, no trailing zeros."""
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}"
    return f"{value:.{digits}g}" if abs(value) >= 1e-4 else f"{value:.{digits + 4}f}".rstrip("0").rstrip(".")


def _not_a(kind: str, text: str, expected: str, example: str) -> UnitError:
    shown = text if len(text) <= 40 else text[:37] + "…"
    return UnitError(f"{shown!r} is no {kind}: write {expected}, for example {example}")
