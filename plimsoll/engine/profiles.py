"""Reads engine profiles: the shipped ones by name, others by path."""

from pathlib import Path
from typing import Any

import msgspec

from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.profilerules import faults_of
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
    faults = faults_of(profile)
    if faults:
        raise ProfileError(f"{source}: " + "; ".join(faults))
    return profile


def _yaml(text: str, source: str) -> Any:
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415 - heavy; most commands never read a profile

    from plimsoll.policy.yamlreader import reader, wrong_with  # noqa: PLC0415 - as above

    try:
        return reader().load(text)
    except RecursionError as error:
        raise ProfileError(f"{source}: nested too deeply to be meant") from error
    except YAMLError as error:
        line, words = wrong_with(error)
        raise ProfileError(f"{source}: {words}" + (f" (line {line})" if line else "")) from error


def _convert(data: Any, source: str) -> EngineProfile:
    try:
        return msgspec.convert(data, EngineProfile)
    except msgspec.ValidationError as error:
        raise ProfileError(f"{source}: {error}") from error
