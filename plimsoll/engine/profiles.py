"""Reads engine profiles: the shipped ones by name, others by path."""

from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.errors import ProfileError

SHIPPED = Path(__file__).parent / "profiles"


def names() -> tuple[str, ...]:
    """The names of the shipped profiles, sorted."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.yaml")))


def load(name_or_path: str) -> EngineProfile:
    """The profile of that name, or of that YAML file where the text ends in .yaml or .yml.

    Raises ProfileError where there is none (the known names are told) or where it breaks a rule (all are told).
    """
    is_file = name_or_path.endswith((".yaml", ".yml"))
    path = Path(name_or_path) if is_file else SHIPPED / f"{name_or_path}.yaml"
    if "/" in name_or_path and not is_file:
        raise ProfileError(f"{name_or_path}: a profile file must end in .yaml")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ProfileError(f"{name_or_path} is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        if is_file:
            raise ProfileError(f"{name_or_path}: {error.strerror}") from error
        raise ProfileError(f"no profile named {name_or_path!r}; known: {', '.join(names())}") from error
    return parse(text, str(path) if is_file else name_or_path)


def parse(text: str, source: str) -> EngineProfile:
    """A profile from YAML text; `source` names it in errors."""
    profile = _convert(_yaml(text, source), source)
    faults = [*_numbers(profile), *_rules(profile)]
    if faults:
        raise ProfileError(f"{source}: " + "; ".join(faults))
    return profile


def _yaml(text: str, source: str) -> Any:
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415 - heavy; most commands never read a profile

    from plimsoll.policy.yamlreader import reader  # noqa: PLC0415 - as above

    try:
        return reader().load(text)
    except RecursionError as error:
        raise ProfileError(f"{source}: nested too deeply to be meant") from error
    except YAMLError as error:
        raise ProfileError(f"{source}: not YAML: {error}") from error


def _convert(data: Any, source: str) -> EngineProfile:
    try:
        return msgspec.convert(data, EngineProfile)
    except msgspec.ValidationError as error:
        raise ProfileError(f"{source}: {error}") from error


def _numbers(profile: EngineProfile) -> list[str]:
    """Faults of single numbers: what must be finite and not negative, what must be positive."""
    faults = []
    for part in ("decode", "mixed"):
        coefficients: StepCoefficients = getattr(profile, part)
        for field in StepCoefficients.__struct_fields__:
            value = getattr(coefficients, field)
            if not isfinite(value) or (value < 0 and field != "c"):  # c is an intercept of the second line
                faults.append(f"{part}.{field} is {value}: must be finite and not negative")
    for field in ("block_size", "num_blocks", "max_num_seqs", "max_batched_tokens", "max_context", "host_factor"):
        value = getattr(profile, field)
        if not (isfinite(value) and value > 0):
            faults.append(f"{field} is {value}: must be positive")
    if not (isfinite(profile.host_per_sequence) and profile.host_per_sequence >= 0):
        faults.append(f"host_per_sequence is {profile.host_per_sequence}: must be finite and not negative")
    return faults


def _rules(profile: EngineProfile) -> list[str]:
    """Faults between numbers."""
    faults = []
    if profile.max_num_seqs > profile.max_batched_tokens:
        faults.append("max_num_seqs exceeds max_batched_tokens: a step could not hold one token a sequence")
    decode, mixed = profile.decode, profile.mixed
    if max(decode.a, decode.c) + decode.d <= 0 or max(mixed.a, mixed.c) + mixed.d + mixed.e + mixed.b <= 0:
        faults.append("a step takes no time: give decode and mixed a positive constant")
    return faults
