"""Logs as other software writes them, a few lines each: shapes from their sources and manuals, values made up."""

import json
from pathlib import Path
from typing import Any

NANO = 1_790_000_000_000_000_000

ENVOY = [
    {"start_time": "2026-09-21T10:00:00.123Z", "method": "POST", "path": "/v1/chat/completions", "response_code": 200,
     "response_flags": "-", "duration": 1500, "upstream_cluster": "llama", "upstream_host": "10.0.0.1:8000",
     "request_id": "a", "x_tenant_id": "acme", "genai_tokens_input": 120, "genai_tokens_output": 40},
    {"start_time": "2026-09-21T10:00:01.000Z", "method": "POST", "path": "/v1/chat/completions", "response_code": 0,
     "response_flags": "DC", "duration": 9000, "upstream_cluster": "llama", "x_tenant_id": "acme"},
    {"start_time": "2026-09-21T10:00:02.000Z", "method": "POST", "path": "/v1/completions", "response_code": 503,
     "response_flags": "UF,URX", "duration": 20, "upstream_cluster": "llama", "x_tenant_id": "globex"},
    {"start_time": "2026-09-21T10:00:02.500Z", "method": "GET", "path": "/healthz", "response_code": 200,
     "response_flags": "-", "duration": 1},
    {"start_time": "2026-09-21T10:00:03.000Z", "method": "POST", "path": "/v1/chat/completions", "response_code": 429,
     "response_flags": "-", "duration": "-", "x_tenant_id": "acme"},
]  # fmt: skip

LITELLM_HEADER = (
    "request_id,call_type,api_key,spend,total_tokens,prompt_tokens,completion_tokens,startTime,endTime,"
    "completionStartTime,model,model_group,api_base,user,metadata,cache_hit,team_id,status"
)
LITELLM = [
    "r1,acompletion,88dc,0.01,160,120,40,2026-09-21 10:00:00.000,2026-09-21 10:00:02.000,2026-09-21 10:00:00.400,"
    'gpt,chat,http://a,bob@x.com,"{""a"": 1}",False,red team,success',
    "r2,acompletion,88dc,0.01,160,120,40,2026-09-21 10:00:01.000,2026-09-21 10:00:04.000,2026-09-21 10:00:04.000,"
    "gpt,chat,http://a,bob@x.com,{},False,red team,success",
    "r3,acompletion,88dc,0,0,120,40,2026-09-21 10:00:01.000,2026-09-21 10:00:01.010,2026-09-21 10:00:01.010,"
    "gpt,chat,http://a,bob@x.com,{},True,red team,success",
    "r4,acompletion,88dc,0,0,0,0,2026-09-21 10:00:05.000,2026-09-21 10:01:05.000,,gpt,chat,http://a,eve,{},False,,failure",
    "r5,acompletion,88dc,0,0,0,0,2026-09-21 10:00:06.000,,,gpt,chat,http://a,eve,{},False,,failure",
    "r6,acompletion,broken",
]

VLLM = """\
INFO 09-21 10:00:00 [api_server.py:1] vLLM API server version 0.10
(APIServer pid=7) INFO 09-21 10:00:01 [logger.py:42] Received request cmpl-1: prompt: 'How are you: "x"', params: \
SamplingParams(n=1, max_tokens=4082), prompt_token_ids: [1, 2, 3, 4], \
lora_request: LoRARequest(lora_name='sql', lora_int_id=1).
INFO 09-21 10:00:01 [async_llm.py:228] Added request cmpl-1.
INFO 09-21 10:00:02 [logger.py:86] Generated response cmpl-1 (streaming delta): output: 'a', output_token_ids: [5], \
finish_reason: None
INFO 09-21 10:00:03 [logger.py:86] Generated response cmpl-1 (streaming delta): output: 'b', output_token_ids: [6], \
finish_reason: None
INFO 09-21 10:00:04 [logger.py:86] Generated response cmpl-1 (streaming complete): output: 'ab', \
output_token_ids: None, finish_reason: stop
INFO 09-21 10:00:04 [logger.py:42] Received request cmpl-2-0: prompt: None, params: None, prompt_token_ids: None.
INFO 09-21 10:00:05 async_llm_engine.py:100] Received request cmpl-3: params: SamplingParams(n=1), lora_request: None.
INFO 09-21 10:00:06 async_llm_engine.py:134] Aborted request cmpl-2-0.
INFO 09-21 10:00:07 async_llm_engine.py:207] Finished request cmpl-9.
INFO 09-21 10:00:11 [loggers.py:87] Engine 000: Avg prompt throughput: 10.8 tokens/s, Running: 1 reqs
INFO 09-21 10:00:12 [async_llm.py:228] Added request cmpl-4.
"""

LLAMA_OLD = """\
slot launch_slot_: id  0 | task 124 | processing task
slot update_slots: id  0 | task 124 | new prompt, n_ctx_slot = 32768, n_keep = 0, n_prompt_tokens = 1400
slot print_timing: id  0 | task 124 |
prompt eval time =    5093.47 ms /  1360 tokens (    3.75 ms per token,   267.01 tokens per second)
       eval time =     319.58 ms /    10 tokens (   31.96 ms per token,    31.29 tokens per second)
      total time =    5413.05 ms /  1370 tokens
slot      release: id  0 | task 124 | stop processing: n_tokens = 1369, truncated = 0
srv  log_server_r: done request: POST /infill 10.8.0.6 200
slot launch_slot_: id  0 | task 135 | processing task
slot      release: id  0 | task 135 | stop processing: n_tokens = 9, truncated = 0
"""


def span(span_id: str, parent: str = "", start: float = 0.0, lasted: float = 1.0, **attributes: Any) -> dict[str, Any]:
    """One span as OTLP JSON has it; `a__b` stands for an attribute `a.b`."""
    return {
        "traceId": "t1", "spanId": span_id, "parentSpanId": parent, "name": "chat m", "kind": 3,
        "startTimeUnixNano": str(NANO + int(start * 1e9)), "endTimeUnixNano": str(NANO + int((start + lasted) * 1e9)),
        "attributes": [{"key": key.replace("__", "."), "value": _value(value)} for key, value in attributes.items()],
        "status": {},
    }  # fmt: skip


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def export(*spans: dict[str, Any], service: str = "shop") -> dict[str, Any]:
    """One export of the collector."""
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}


OTLP = [
    export(
        span("c1", "a1", 0.0, 2.0, gen_ai__operation__name="chat", gen_ai__request__model="m", tenant__id="acme",
             gen_ai__usage__input_tokens=100, gen_ai__usage__output_tokens=20),
        span("a1", "", 0.0, 3.0, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="planner"),
        span("x1", "a1", 0.0, 1.0, gen_ai__operation__name="execute_tool"),
    ),
    export(
        span("e1", "c1", 0.1, 1.8, gen_ai__operation__name="text_completion",
             gen_ai__latency__time_to_first_token=0.25, gen_ai__latency__time_in_queue=0.05),
        span("c2", "", 5.0, 60.0, gen_ai__operation__name="chat", gen_ai__request__model="m", error__type="timeout"),
    ),
]  # fmt: skip


def write(folder: Path, name: str, lines: list[Any] | str) -> Path:
    """A log file of those lines, objects as JSON."""
    text = lines if isinstance(lines, str) else "\n".join(
        each if isinstance(each, str) else json.dumps(each) for each in lines
    ) + "\n"  # fmt: skip
    path = folder / name
    path.write_text(text)
    return path
