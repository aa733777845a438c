"""Reading profiles: every shipped one is sound, every fault of a bad one is told."""

from pathlib import Path

import pytest

from plimsoll.engine import profiles
from plimsoll.errors import ProfileError

SOUND = """
name: mine
source: a test
decode: {a: 0.01}
mixed: {a: 0.01, e: 1e-5}
"""


@pytest.mark.parametrize("name", profiles.names())
def test_shipped_profiles_are_sound_and_say_where_they_come_from(name: str) -> None:
    profile = profiles.load(name)
    assert profile.name == name
    assert len(profile.source) > 60
    assert profile.model


def test_the_promised_profiles_are_shipped() -> None:
    promised = {"h100-llama70b-tp4", "h100-llama70b-tp8", "a100-llama70b-tp4", "a100-llama70b-tp8"}
    promised |= {"rtxpro6000-llama8b", "rtxpro6000-qwen32b", "rtxpro6000-qwen30b-moe", "rtx4090-llama8b"}
    promised |= {"tiny-llamacpp", "tiny-vllm-cpu"}
    assert promised <= set(profiles.names())


def test_by_path(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(SOUND)
    assert profiles.load(str(tmp_path / "mine.yaml")).decode.a == 0.01


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SOUND + "colour: red", "unknown field `colour`"),
        ("name: mine", "missing required field"),
        ("name: [", "not YAML"),
        (SOUND + "max_num_seqs: many", "Expected `int`"),
        (SOUND.replace("a: 0.01}", "a: .nan}"), "decode.a is nan"),
        (SOUND + "block_size: 0\nnum_blocks: -1", "num_blocks is -1"),
        (SOUND + "max_num_seqs: 100\nmax_batched_tokens: 50", "exceeds max_batched_tokens"),
        (SOUND.replace("decode: {a: 0.01}", "decode: {}"), "takes no time"),
    ],
)
def test_bad_profiles(text: str, told: str) -> None:
    with pytest.raises(ProfileError, match="here: ") as raised:
        profiles.parse(text, "here")
    assert told in str(raised.value)


def test_all_faults_at_once() -> None:
    with pytest.raises(ProfileError) as raised:
        profiles.parse(SOUND + "block_size: 0\nnum_blocks: 0", "here")
    assert "block_size" in str(raised.value)
    assert "num_blocks" in str(raised.value)


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(ProfileError, match="h100-llama70b-tp4"):
        profiles.load("h100")
    with pytest.raises(ProfileError, match="No such file"):
        profiles.load("/nowhere/h100.yaml")
    with pytest.raises(ProfileError, match=r"must end in \.yaml"):
        profiles.load("./h100")
