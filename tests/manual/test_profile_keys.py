"""Every key of an engine profile, and every choice that one takes, stands in docs/engines.md."""

import re
from pathlib import Path

from msgspec import Struct

from plimsoll.engine import features
from plimsoll.engine.profile import EngineProfile, StepCoefficients

PAGE = (Path(__file__).parents[2] / "docs" / "engines.md").read_text(encoding="utf-8")
PAGE = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
TOLD = set(re.findall(r"`([^`]+)`", PAGE))


def test_every_key_is_told() -> None:
    structs = [EngineProfile, StepCoefficients]
    structs += [
        one
        for one in vars(features).values()
        if isinstance(one, type) and issubclass(one, Struct) and one is not Struct
    ]
    assert len(structs) > 12
    missing = {f"{struct.__name__}.{key}" for struct in structs for key in struct.__struct_fields__ if key not in TOLD}
    assert missing == set()


def test_every_choice_is_told() -> None:
    choices = {choice.value for name in ("Eviction", "Router", "Topology") for choice in getattr(features, name)}
    assert choices <= TOLD
