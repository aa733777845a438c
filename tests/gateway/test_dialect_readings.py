"""What engines say of themselves, read from their own pages; what they do not say stays unknown."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.gateway.dialects import llamacpp, tgi, vllm
from plimsoll.gateway.dialects.dialect import DIALECTS, of
from plimsoll.gateway.dialects.exporters import EXPORTERS, read_dynamo_load
from plimsoll.gateway.dialects.exposition import Exposition
from plimsoll.gateway.dialects.reading import Reading, plausible_state
from plimsoll.requestlog.enginestate import EngineState, Histogram


def sample(name: str) -> bytes:
    data = os.environ.get("PLIMSOLL_DATA", "")
    if not data and not os.environ.get("CI"):
        pytest.skip("PLIMSOLL_DATA is not set")
    return (Path(data) / "engine-metrics" / name).read_bytes()


@pytest.mark.parametrize(
    ("name", "engine", "expected"),
    [
        ("vllm.prom", "vllm", Reading(24, 7, 0.3943, 33166, 16, 812345, 401120, 37)),
        ("vllm-cpu-live.prom", "vllm", Reading(8, 3, 0.010258915486077158, 2048, 128, 0, 0, 0)),
        ("vllm-v0.prom", "vllm", Reading(waiting=0, kv_usage=0.0)),
        ("sglang.prom", "sglang", Reading(24, 7, 0.62, 8290, 64, 812345, 158594, 41663, 131072)),
        ("sglang-docs-sample.prom", "sglang", Reading(162, 2826, 0.28, prefix_queries=8128902)),
        ("trtllm-serve.prom", "trtllm", Reading(24, 7, 0.62, 8290, 64, 947200, 390400)),
        ("triton-trtllm.prom", "trtllm", Reading(1, 1, 1 / 6239, 6239, 64)),
        ("tgi.prom", "tgi", Reading(24, 7)),
        ("llamacpp.prom", "llamacpp", Reading(3, 1, prefix_queries=47175, prefix_hits=14110)),
        ("llamacpp-live.prom", "llamacpp", Reading(8, 3, prefix_queries=249905, prefix_hits=0)),
    ],
)
def test_real_pages(name: str, engine: str, expected: Reading) -> None:
    assert of(engine).read(sample(name)) == expected


def told(state: EngineState) -> dict[str, object]:
    values = {name: getattr(state, name) for name in state.__struct_fields__}
    short = {name: value.counts[-1] if isinstance(value, Histogram) else value for name, value in values.items()}
    return {name: value for name, value in short.items() if value is not None}


@pytest.mark.parametrize(
    ("name", "engine", "expected"),
    [
        (
            "vllm.prom", "vllm",
            {"output_tokens": 96540, "draft_tokens": 15600, "accepted_tokens": 9120, "loaded_tokens": 98304,
             "ttft": 80, "itl": 400, "queue": 80},
        ),
        (
            "vllm-cpu-live.prom", "vllm",
            {"started_at": 1795958090.05, "output_tokens": 70953, "loaded_tokens": 0, "ttft": 1335, "itl": 69618,
             "queue": 1327},
        ),
        ("vllm-v0.prom", "vllm", {"itl": 29}),
        (
            "trtllm-serve.prom", "trtllm",
            {"output_tokens": 96540, "draft_tokens": 15600, "accepted_tokens": 9120, "loaded_bytes": 3.1e9, "ttft": 80,
             "itl": 80, "queue": 80},
        ),
        ("triton-trtllm.prom", "trtllm", {}),
        ("tgi.prom", "tgi", {"accepted_tokens": 40, "itl": 80, "queue": 80}),
        ("llamacpp.prom", "llamacpp", {"output_tokens": 7801, "draft_tokens": 300, "accepted_tokens": 200}),
        ("llamacpp-live.prom", "llamacpp", {"output_tokens": 46382, "draft_tokens": 0, "accepted_tokens": 0}),
    ],
)  # fmt: skip
def test_states_of_real_pages(name: str, engine: str, expected: dict[str, object]) -> None:
    assert told(plausible_state(of(engine).read_state(sample(name)))) == expected


def test_sglangs_summaries_and_guesses() -> None:
    state = of("sglang").read_state(sample("sglang.prom"))
    assert (state.output_tokens, state.draft_tokens, state.accepted_tokens) == (96540, 47992, 15717)
    assert state.balance_total == pytest.approx(2.5135945663618253 * (state.balance_looks or 0))
    assert state.ttft is not None
    assert state.ttft.counts[-1] == 160, "series by is_streaming are added up"


def test_waiting_adapters_are_those_of_the_newest_series() -> None:
    page = b'vllm:lora_requests_info{waiting_lora_adapters="a,b"} 10\n'
    page += b'vllm:lora_requests_info{waiting_lora_adapters=""} 9\n'
    assert vllm.read_state(page).adapters_waiting == 2


def test_exporters() -> None:
    dcgm = EXPORTERS["dcgm"](sample("dcgm.prom"))
    assert (dcgm.pcie_rate, dcgm.nvlink_rate) == (8.4e9, 162e9)
    assert (dcgm.tensor_active, dcgm.memory_active, dcgm.sm_clock) == (0.41, 0.63, 1980.0)
    lmcache = EXPORTERS["lmcache"](sample("lmcache.prom"))
    assert lmcache.loaded_tokens == 24726
    assert lmcache.loading_time == pytest.approx(225.719, abs=1e-3)
    page = b"dynamo_component_inflight_requests 3\ndynamo_component_kvstats_active_blocks 50\n"
    page += b"dynamo_component_kvstats_total_blocks 200\n"
    assert read_dynamo_load(page) == Reading(3, None, 0.25, 200)
    assert EXPORTERS["dcgm"](b"DCGM_FI_DEV_SM_CLOCK 9223372036854775794\n") == EngineState()


@given(st.binary(max_size=400))
def test_no_page_breaks_a_state(page: bytes) -> None:
    for dialect in DIALECTS.values():
        assert dialect.read_state(page) == EngineState()
    for read in EXPORTERS.values():
        assert read(page) == EngineState()


def test_slots_tell_what_metrics_would() -> None:
    assert llamacpp.read_slots(sample("llamacpp-slots.json")) == Reading(8, None, None, 8, 2560, max_context=2560)


@given(st.binary(max_size=400))
def test_no_page_breaks_a_dialect(page: bytes) -> None:
    for dialect in DIALECTS.values():
        assert dialect.read(page) == Reading()


def test_vllm_tells_which_adapters_ran_last_and_how_many_can() -> None:
    name, labels = b"vllm:lora_requests_info", b'max_lora="2",running_lora_adapters="%b",waiting_lora_adapters=""'
    sets = ((b"law", 17), (b"law, tax", 19), (b"", 18))
    series = [name + b"{" + labels % names + b"} %d\n" % at for names, at in sets]
    reading = vllm.read(b"".join(series))
    assert (reading.adapters, reading.adapter_slots) == (("law", "tax"), 2)
    assert vllm.read(name + b'{engine="0"} 20.0\n').adapters is None


def test_data_parallel_ranks_are_summed() -> None:
    page = b'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4.0\n'
    page += b'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.4\n'
    reading = vllm.read(page)
    assert reading.running == 7
    assert reading.kv_usage == pytest.approx(0.3)
    ranks = b"".join(
        b'sglang:num_running_reqs{dp_rank="%d",tp_rank="%d"} 5\n' % (dp, tp) for dp in range(2) for tp in range(4)
    )
    assert of("sglang").read(ranks).running == 10


def test_names_values_and_labels_are_not_mistaken() -> None:
    page = b'# HELP a x\na_total 1\nab 2\na{x="}\\"{ 9",y="z"} 3 1700000000\na{y="w"} NaN\na{y="v"} +Inf\n'
    metrics = Exposition(page)
    assert metrics.samples("a") == [({b"x": b'}\\"{ 9', b"y": b"z"}, 3.0)]
    assert metrics.total("a", y="v") is None
    assert metrics.total("missing", "a_total") == 1.0


def test_facts() -> None:
    assert vllm.read_facts(b'{"object":"list","data":[{"id":"m","max_model_len":4096}]}').max_context == 4096
    assert vllm.read_facts(b'{"data":[{"id":"m"}]}') == Reading()
    props = b'{"total_slots":4,"default_generation_settings":{"n_ctx":2560}}'
    assert llamacpp.read_facts(props) == Reading(kv_blocks=4, block_size=2560, max_context=2560)
    info = b'{"max_total_tokens":4096,"max_batch_total_tokens":61440}'
    assert tgi.read_facts(info) == Reading(kv_blocks=61440, block_size=1, max_context=4096)


@given(
    st.sampled_from(["-1", "1e400", "NaN", "-Inf", "1e18", "1e300", "x"]),
    st.sampled_from(["-5", "0", "9" * 26, "9" * 5000, "nan", "None", "1.5"]),
)
def test_what_no_engine_can_mean_is_unknown(number: str, count: str) -> None:
    gauges = "".join(f"vllm:{name} {number}\n" for name in ("num_requests_running", "kv_cache_usage_perc"))
    page = f'{gauges}vllm:cache_config_info{{block_size="{count}",num_gpu_blocks="{count}"}} 1\n'
    assert vllm.read(page.encode()).plausible() == Reading()


def test_what_can_be_meant_is_kept() -> None:
    said = Reading(24, 7, 1.003, 33166, 16, 0, 0, 37, 4096)
    assert said.plausible() == said
    assert Reading().plausible() == Reading()
