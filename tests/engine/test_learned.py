"""A predictor's file: what is wrong with one is told with its place, and nothing in it can keep a decision waiting."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from plimsoll.engine import profiles
from plimsoll.engine.learned import FEATURES, MOST_TREES, LearnedModel, LearnedProfile, faults_of, parse
from plimsoll.errors import ProfileError

NAME = "rtxpro6000-llama8b"
ERRORS = {"median_error": 0.1, "p90_error": 0.3, "signed_error": 0.0, "pinball_p50": 0.01, "pinball_p90": 0.01}


def trees(**changes: object) -> dict[str, object]:
    plain = {"roots": [0], "features": [0, 3], "thresholds": [0.5, 2.0], "lefts": [1, -1], "rights": [-2, -3],
             "leaves": [0.1, 0.2, 0.3]}  # fmt: skip
    return plain | changes


def model(**changes: object) -> bytes:
    plain: dict[str, Any] = {
        "plimsoll_predictor": 1, "profile": NAME, "source": "a test", "features": FEATURES, "p50": trees(),
        "p90": trees(), "learned": ERRORS, "step_model": ERRORS,
    }  # fmt: skip
    return msgspec.json.encode(plain | changes)


def test_a_good_one_is_read_as_it_was_written() -> None:
    found = parse(model(), "f.json")
    assert faults_of(found) == []
    assert parse(msgspec.json.encode(found), "again") == found


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "no predictor"),
        (b"\xff", "no predictor"),
        (model(more=1), "`more`"),
        (model(plimsoll_predictor=2), "plimsoll_predictor is 2: this release reads 1"),
        (model(features=FEATURES[1:]), "features are not those of this release"),
        (model(p50=trees(thresholds=[0.5])), "p50.thresholds holds 1 values, p50.features 2"),
        (model(p90=trees(features=[0, 99])), "p90.features[1] is 99"),
        (model(p50=trees(lefts=[1, 0])), "p50.lefts[1] is 0: must be a later node or a leaf"),
        (model(p50=trees(lefts=[1, 1])), "p50.lefts[1] is 1: must be a later node or a leaf"),
        (model(p50=trees(rights=[2, -3])), "p50.rights[0] is 2"),
        (model(p50=trees(rights=[-4, -3])), "p50.rights[0] is -4"),
        (model(p50=trees(roots=[0, 7])), "p50.roots[1] is 7: there is no such node"),
        (model(p50=trees(roots=[0] * (MOST_TREES + 1))), f"{MOST_TREES + 1} trees, at most {MOST_TREES}"),
        (model(p50=trees(leaves=[0.1] * 33)), "p50.leaves: 33, at most 32 a tree"),
        (model(p50=trees(leaves=[0.1, 0.2, 1e999])), "no predictor"),
        (model(p50=trees(leaves=[0.1, 0.2, 60.0])), "p50.leaves[2] is 60.0"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(data: bytes, said: str) -> None:
    with pytest.raises(ProfileError, match=re.escape(said)) as told:
        parse(data, "chat.json")
    assert str(told.value).startswith("chat.json: ")


def test_it_comes_with_the_profile_that_it_was_made_for(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(model())
    found = profiles.load(NAME, "", str(path))
    assert isinstance(found, LearnedProfile)
    assert isinstance(found.learned, LearnedModel)
    assert found.decode == profiles.load(NAME).decode
    with pytest.raises(ProfileError, match="made for predictions by profile"):
        profiles.load("h100-llama70b-tp4", "", str(path))
    with pytest.raises(ProfileError, match="No such file or directory"):
        profiles.load(NAME, "", str(tmp_path / "none.json"))
