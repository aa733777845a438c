"""Reading profiles: every shipped one is sound, every fault of a bad one is told."""

import re
from pathlib import Path

import msgspec
import pytest

from plimsoll.engine import profilerules, profiles
from plimsoll.engine.features import DataParallel
from plimsoll.engine.steptime import StepTime
from plimsoll.errors import ProfileError
from plimsoll.policy.document import parse
from plimsoll.sim.fleet import Fleet

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


FEATURES = """
precision: {source: s, name: fp8, factor: 0.6}
cold_start: {source: s, seconds: 40, asleep_after: 600}
data_parallel: {source: s, ranks: 2}
lora: {source: s, slots: 4, load_time: 0.3}
rounds: {source: s, steps: 8, early_cut: true}
speculation: {source: s, draft_tokens: 2, acceptance: {default: [0.6, 0.3]}, draft_time: 0.001}
moe:
  {source: s, num_ranks: 8, experts_per_token: 8, expert_share: 0.6, skew: [[512, 1], [2048, 1.2]], router: wait_aware,
   num_layers: 48, topology: across, inside: {base: 1e-5, per_token: 1e-8}, across: {base: 1e-4, per_token: 1e-7}}
kv_tiers:
  source: s
  bytes_per_token: 131072
  eviction: segmented
  prewarm_every: 1
  tiers:
    - {name: dram, capacity: 1e11, read_bandwidth: 2e10, write_bandwidth: 2e10}
    - {name: nvme, capacity: 1e12, read_bandwidth: 7e9, write_bandwidth: 5e9, latency: 8e-5}
tables: {source: s, decode: {num_seqs: [1, 8], context: [0, 100], seconds: [[0.01, 0.02], [0.02, 0.04]]}}
"""


def test_features_are_read_and_off_by_default() -> None:
    plain, full = profiles.parse(SOUND, "here"), profiles.parse(SOUND + FEATURES, "here")
    for name in profilerules.FEATURES:
        assert getattr(plain, name) is None
        assert (getattr(full, name) is None) == (name == "disaggregation")
    pair = "disaggregation: {source: s, prefill_replicas: 1, decode_replicas: 2, bytes_per_token: 1e5, bandwidth: 1e10}"
    assert profiles.parse(SOUND + pair, "here").disaggregation


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("source: s, name: fp8", "name: fp8", "missing required field `source`"),
        ("source: s, name: fp8", 'source: "", name: fp8', "precision.source is empty"),
        ("factor: 0.6", "factor: 0", "precision.factor is 0.0: must be positive"),
        ("seconds: 40", "seconds: -1", "cold_start.seconds is -1.0"),
        ("slots: 4", "slots: 0", "lora.slots is 0"),
        ("ranks: 2}", "ranks: 0}", "data_parallel.ranks is 0"),
        ("steps: 8", "steps: 0", "rounds.steps is 0"),
        ("default: [0.6, 0.3]", "acme: [0.6, 0.3]", "no default"),
        ("[0.6, 0.3]", "[0.3, 0.6]", "speculation.acceptance.default grows"),
        ("[0.6, 0.3]", "[60, 30]", "chances lie between 0 and 1"),
        ("[0.6, 0.3]", "[0.6]", "tells 1 positions of 2"),
        ("draft_tokens: 2", "draft_tokens: 9", "exceed max_batched_tokens"),
        ("expert_share: 0.6", "expert_share: 60", "moe.expert_share is 60"),
        ("[[512, 1], [2048, 1.2]]", "[[512, 1], [256, 1.2]]", "moe.skew: tokens must grow"),
        ("[2048, 1.2]", "[2048, -1]", "moe.skew: factors must be positive"),
        ("router: wait_aware", "router: best", "Invalid enum value 'best'"),
        ("across: {base: 1e-4", "across: {base: -1", "moe.across.base is -1"),
        ("capacity: 1e11", "capacity: 0", "kv_tiers.tiers[0].capacity is 0"),
        ("latency: 8e-5", "latency: .nan", "kv_tiers.tiers[1].latency is nan"),
        ("eviction: segmented", "protected_ratio: 80", "kv_tiers.protected_ratio is 80"),
        ("tables:", "prefix_caching: false\ntables:", "kv_tiers need prefix_caching"),
        ("context: [0, 100]", "context: [100, 0]", "tables.decode.context: at least two points that grow"),
        ("seconds: [[0.01, 0.02]", "seconds: [[0.01]", "2 rows of 2 are needed"),
        ("seconds: [[0.01, 0.02]", "seconds: [[0.02, 0.01]", "more context cannot be faster"),
        ("seconds: [[0.01, 0.02]", "seconds: [[0, 0.01]", "every step takes time"),
        ("tables: {source: s, d", "tables: {source: s, mixed: {tokens: [1], seconds: [1]}, d", "tables.mixed.tokens"),
        ("tables:", "disaggregation: {source: s, prefill_replicas: 1, decode_replicas: 2, bytes_per_token: 1, "
         "bandwidth: 1}\ntables:", "rounds and disaggregation"),
    ],
)  # fmt: skip
def test_faults_of_features_name_place_and_rule(old: str, new: str, told: str) -> None:
    text = SOUND + FEATURES
    assert old in text
    with pytest.raises(ProfileError) as raised:
        profiles.parse(text.replace(old, new), "here")
    assert told in str(raised.value)


def test_the_example_of_all_features_is_sound() -> None:
    profile = profiles.load(str(Path(__file__).parents[2] / "examples" / "engine-features.yaml"))
    shown = {name for name in profilerules.FEATURES if getattr(profile, name) is not None}
    assert shown == {*profilerules.FEATURES} - {"tables", "data_parallel", "disaggregation"}


def test_overrides_are_laid_over_a_profile_section_by_section() -> None:
    """What is given replaces, the rest of its section stays; a list is replaced whole; off takes a section away."""
    base = profiles.load("examples/engine-features.yaml")
    given = """{"max_num_seqs": 32, "speculation": {"draft_tokens": 2}, "kv_tiers": "off", "lora": false,
        "moe": {"skew": [[1, 1.5]]}, "data_parallel": {"source": "a test", "ranks": 2}, "prefix_caching": false}"""
    laid = profiles.load("examples/engine-features.yaml", given)
    assert (laid.max_num_seqs, laid.prefix_caching) == (32, False)
    assert laid.kv_tiers is None
    assert laid.lora is None
    assert base.speculation is not None
    assert laid.speculation == msgspec.structs.replace(base.speculation, draft_tokens=2)
    assert laid.moe == msgspec.structs.replace(base.moe, skew=((1, 1.5),)) if base.moe else False
    assert laid.data_parallel == DataParallel("a test", 2)
    assert laid.precision == base.precision


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('{"kv_teirs": "off"}', "with overrides: Object contains unknown field `kv_teirs`"),
        ('{"precision": {"factor": 0.5}}', "with overrides: Object missing required field `source`"),
        ('{"max_num_seqs": "off"}', "with overrides: Expected `int`, got `str`"),
        ('{"block_size": 0}', "with overrides: block_size is 0"),
    ],
)
def test_faults_of_overrides_are_told(given: str, told: str) -> None:
    with pytest.raises(ProfileError, match=re.escape(told)):
        profiles.load("rtx4090-llama8b", given)


def test_pools_of_one_profile_may_differ() -> None:
    policy = parse("""
plimsoll: 1
tiers: [{name: gold, rank: 0, share: 50%, objectives: [{sli: ttft, below: 1s, target: 99%}]}]
pools:
  - {name: a, model: m, engine: vllm, profile: rtx4090-llama8b, replicas: ["http://r1"], max_prompt_tokens: 1k}
  - {name: b, model: m, engine: vllm, profile: rtx4090-llama8b, replicas: ["http://r2"], min_prompt_tokens: 1k, overrides: {max_num_seqs: 8, precision: {source: t, name: fp8, factor: 0.5}}}
""")  # noqa: E501 - one line a pool
    known = profiles.of_policy(policy)
    assert len(known) == 2
    fleet = Fleet(policy, known)
    assert [profile.max_num_seqs for profile in fleet.profiles] == [256, 8]
    plain, fast = (StepTime(profile).decode(8, 1000) for profile in fleet.profiles)
    assert fast < 0.6 * plain
