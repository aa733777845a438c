"""Depth is refused where it is reached, not after the library has looked at it a million times."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.engine import profiles
from plimsoll.errors import PolicyError, ProfileError
from plimsoll.load import tenants
from plimsoll.policy import document, specfiles
from plimsoll.policy.yamlreader import DEEPEST, reader

DEEP = {
    "sequences": "[" * 20_000,
    "mappings": "{a: " * 20_000,
    "compact": "- " * 20_000,
    "indented": "a:\n" + "".join(" " * i + "a:\n" for i in range(1, 2_000)),
    "mixed": "plimsoll: 1\ntiers: " + "[{a: " * 10_000,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_what_nests_too_deeply_is_refused_at_its_line_and_at_once(text: str) -> None:
    began = time.process_time()
    (fault,) = document.examine(text).faults
    assert "nested too deeply" in fault.message
    assert fault.line == (2 if "tiers" in text else DEEPEST + 1 if "\n" in text else 1)
    assert time.process_time() - began < 1.0


def test_every_reader_of_yaml_holds_to_it(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(DEEP["sequences"])
    with pytest.raises(ProfileError, match="nested too deeply"):
        profiles.parse(DEEP["sequences"], "p.yaml")
    with pytest.raises(PolicyError, match="nested too deeply"):
        tenants.read_senders(tmp_path / "t.yaml")
    assert any(
        "nested too deeply" in str(fault) for _, fault in specfiles.read_text(DEEP["sequences"], "s.yaml").faults
    )


@given(st.integers(1, DEEPEST - 1), st.sampled_from("[{"))
def test_what_nests_less_is_read(depth: int, sign: str) -> None:
    text = "[" * depth + "]" * depth if sign == "[" else "{a: " * depth + "1" + "}" * depth
    value = reader().load(text)
    for _ in range(depth - 1):
        value = value[0] if sign == "[" else value["a"]
    assert value == ([] if sign == "[" else {"a": 1})
