"""Reads engine profiles: the shipped ones by name, others by path."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from plimsoll.engine import learned
from plimsoll.engine.learned import LearnedProfile, with_model
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.profilerules import FEATURES, faults_of
from plimsoll.errors import ProfileError
from plimsoll.policy.policy import Policy, Pool

SHIPPED = Path(__file__).parent / "profiles"


def names() -> tuple[str, ...]:
    """The names of the shipped profiles, sorted."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.yaml")))


def of_policy(policy: Policy) -> dict[str, EngineProfile]:
    """The profiles of its pools, each with what the pool overrides, by `Pool.engine_profile`. Raises ProfileError."""
    return {pool.engine_profile: of_pool(pool) for pool in policy.pools if pool.profile}


def of_pool(pool: Pool) -> EngineProfile:
    """The profile that a pool names, with what it overrides. Raises ProfileError."""
    return load(pool.profile or "", pool.overrides, pool.predictor)


def load(name_or_path: str, overrides: str = "", predictor: str = "") -> EngineProfile:
    """The profile of that name, or of that YAML file where the text ends in .yaml or .yml.

    `overrides` is a JSON object laid over it: a section is merged key by key, and switched off by "off" or false.
    `predictor` is a file that `plimsoll learn` made for it. Raises ProfileError where there is none (the known names
    are told) or where it breaks a rule (all are told).
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
    profile = parse(text, str(path) if is_file else name_or_path, overrides)
    return _with_predictor(profile, predictor) if predictor else profile


def _with_predictor(profile: EngineProfile, path: str) -> LearnedProfile:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}") from error
    return with_model(profile, learned.parse(data, path), path)


def parse(text: str, source: str, overrides: str = "") -> EngineProfile:
    """A profile from YAML text; `source` names it in errors."""
    data = _yaml(text, source)
    if overrides:
        data, source = _laid(msgspec.json.decode(overrides), data, FEATURES), f"{source} with overrides"
    profile = _convert(data, source)
    faults = faults_of(profile)
    if faults:
        raise ProfileError(f"{source}: " + "; ".join(faults))
    return profile


def _laid(over: Any, data: Any, sections: Collection[str] = ()) -> Any:
    """`data` with what is in `over` in its place, mappings key by key; without the sections that it switches off."""
    if not (isinstance(over, dict) and isinstance(data, dict)):
        return over
    off = {key for key, value in over.items() if key in sections and (value == "off" or value is False)}
    laid = {key: _laid(value, data.get(key)) for key, value in over.items()}
    return {key: value for key, value in {**data, **laid}.items() if key not in off}


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
