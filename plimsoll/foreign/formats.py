"""The formats that are known: by what each is recognised, how its rows are read, and what it can never tell."""

from collections.abc import Callable
from typing import Final, NamedTuple

from plimsoll.errors import TraceError
from plimsoll.foreign import llamaserver, otlp, vllmlog
from plimsoll.foreign.endings import COMPLETED, FAILED, LEFT, OPEN, Ending, of_flags, of_word
from plimsoll.foreign.logfile import LogFile, Numbered
from plimsoll.foreign.mapping import Columns, columns
from plimsoll.foreign.values import is_empty
from plimsoll.foreign.visit import Cells

_TENANTS: Final = "tenant tenant_id tenant.id team_id team organization_id organization customer user_id user account"
_COMMON: Final = columns(
    arrived_at="arrived_at arrival_s arrival_time arrival start_time startTime started_at timestamp ts time created_at "
    "@timestamp request_time start arrival_ms arrival_ns",
    first_token_at="first_token_at first_token_time completionStartTime",
    finished_at="finished_at end_time endTime ended_at end completed_at end_s",
    ttft="ttft ttft_s ttft_ms time_to_first_token time_to_first_token_ms ttft_seconds time_to_first_token_seconds",
    e2e="e2e e2e_s e2e_ms e2e_seconds latency_s latency_ms latency_seconds duration_s duration_ms duration_seconds "
    "elapsed_s elapsed_ms response_time_ms total_time_ms request_duration_ms",
    tpot="tpot tpot_s tpot_ms time_per_output_token_ms",
    queued_for="queued_for queue_wait_s queue_time_s queue_ms queue_time_ms queued_s queued_ms",
    prompt_tokens="prompt_tokens input_tokens prompt_len input_len num_prompt_tokens ContextTokens input_length",
    cached_tokens="cached_tokens cached_prompt_tokens cache_read_input_tokens num_cached_tokens",
    output_tokens="output_tokens completion_tokens generated_tokens output_len num_output_tokens GeneratedTokens",
    attempts="attempts num_attempts",
    tenant=_TENANTS, tier="tier service_tier priority_class", model="model model_name model_group",
    adapter="adapter lora_name lora", pool="pool model_group cluster run",
    replica="replica instance backend pod upstream_host",
    cause="cause feature use_case workflow agent", endpoint="endpoint path route call_type",
    session="session session_id conversation_id", trace_id="trace_id traceId", request_id="request_id id request",
    status="status status_code http_status response_code finish_reason outcome",
    streaming="streaming stream is_streaming", token_instants="token_ms token_s token_instants",
)  # fmt: skip
_ENVOY: Final = columns(
    arrived_at="start_time startTime START_TIME timestamp @timestamp", e2e="duration:ms DURATION:ms duration_ms:ms",
    prompt_tokens="genai_tokens_input llm_input_token input_tokens gen_ai.usage.input_tokens",
    output_tokens="genai_tokens_output llm_output_token output_tokens gen_ai.usage.output_tokens",
    cached_tokens="genai_tokens_cached_input llm_cached_input_token",
    tenant="tenant x_tenant_id x-tenant-id tenant_id jwt_sub user_id x_user_id",
    model="genai_model_name model x_ai_eg_model x-ai-eg-model genai_model_name_override",
    pool="upstream_cluster UPSTREAM_CLUSTER cluster", replica="upstream_host UPSTREAM_HOST genai_backend_name",
    endpoint="path x-envoy-original-path x_envoy_original_path PATH", trace_id="trace_id traceparent",
    request_id="request_id x-request-id x_request_id REQ(X-REQUEST-ID)", session="session_id", cause="cause",
    attempts="upstream_request_attempt_count UPSTREAM_REQUEST_ATTEMPT_COUNT",
)  # fmt: skip
_LITELLM: Final = columns(
    arrived_at="startTime", first_token_at="first_token_at", finished_at="endTime", prompt_tokens="prompt_tokens",
    output_tokens="completion_tokens", tenant="team_id team_alias end_user user_alias user key_alias api_key",
    model="model_group model", pool="model_group model", replica="api_base model_id", session="session_id",
    endpoint="call_type", request_id="request_id", streaming="streaming", cached_tokens="cached_tokens",
    attempts="attempts",
)  # fmt: skip
_OTLP: Final = columns(
    arrived_at="start:ns", finished_at="end:ns", first_token_at="first_event_at:ns",
    ttft="gen_ai.server.time_to_first_token:s gen_ai.latency.time_to_first_token:s llm.time_to_first_token:s "
    "gen_ai.response.time_to_first_chunk:s gen_ai.client.operation.time_to_first_chunk:s",
    queued_for="gen_ai.latency.time_in_queue:s",
    prompt_tokens="gen_ai.usage.input_tokens gen_ai.usage.prompt_tokens llm.usage.prompt_tokens",
    output_tokens="gen_ai.usage.output_tokens gen_ai.usage.completion_tokens llm.usage.completion_tokens",
    cached_tokens="gen_ai.usage.cache_read.input_tokens gen_ai.usage.cache_read_input_tokens",
    tenant="tenant tenant.id tenant_id resource.tenant.id organization.id user.id enduser.id resource.service.name",
    model="gen_ai.response.model gen_ai.request.model", pool="gen_ai.request.model gen_ai.response.model",
    replica="server.address", cause="gen_ai.agent.name gen_ai.workflow.name", endpoint="gen_ai.operation.name",
    session="gen_ai.conversation.id session.id", trace_id="trace_id",
    request_id="gen_ai.request.id gen_ai.response.id span_id",
    streaming="gen_ai.request.stream llm.is_streaming", attempts="attempts",
)  # fmt: skip
_PAIRED: Final = columns(
    arrived_at="arrived_at", first_token_at="first_token_at", finished_at="finished_at", e2e="e2e:s", ttft="ttft:s",
    tpot="tpot:s", prompt_tokens="prompt_tokens", cached_tokens="cached_tokens", output_tokens="output_tokens",
    model="model", adapter="adapter", request_id="request_id", status="status", streaming="streaming",
)  # fmt: skip
_PATHS: Final = (
    "completions", "chat", "embeddings", "messages", "responses", "generate", "infer", "rerank", "score", "invoke",
)  # fmt: skip


class Format(NamedTuple):
    """`recognise` gives the reason, or ""; `told` what must be known of the format to read its figures rightly."""

    name: str
    recognise: Callable[[LogFile], str]
    rows: Callable[[LogFile], Numbered]
    named: Columns
    ending: Callable[[Cells], Ending | None] | None
    told: tuple[str, ...]


def _keys(file: LogFile) -> set[str]:
    """Columns of a CSV or Parquet file, keys of the first JSON record."""
    if file.is_parquet:
        return set(file.parquet_columns())
    head = file.head_lines()
    first = next((line for line in head if line.strip()), "")
    if first.lstrip().startswith(("{", "[")):
        try:
            return next((set(record) for _, record in file.objects() if isinstance(record, dict)), set())
        except TraceError:
            return set()
    separator = "\t" if "\t" in first else ";" if first.count(";") > first.count(",") else ","
    return {cell.strip().strip('"') for cell in first.split(separator)}


def _records(file: LogFile) -> Numbered:
    if file.is_parquet:
        return file.batches()
    first = next((line for line in file.head_lines() if line.strip()), "")
    return file.objects() if first.lstrip().startswith(("{", "[")) else file.table()


def _is_envoy(file: LogFile) -> str:
    keys = {key.lower() for key in _keys(file)}
    if {"start_time", "duration"} <= keys and keys & {"response_code", "response_flags"}:
        return "its records have start_time, duration and response_code, as Envoy's JSON access log does"
    return ""


def _envoy_rows(file: LogFile) -> Numbered:
    for number, cells in _records(file):
        if isinstance(cells, str):
            yield number, cells
            continue
        path = str(cells.get("path") or cells.get("x-envoy-original-path") or cells.get("PATH") or "")
        if path and not any(part in path for part in _PATHS):
            yield number, "its path is no inference endpoint's"
        else:
            yield number, cells | {"streaming": None}


def _envoy_ending(cells: Cells) -> Ending | None:
    flags = of_flags(str(cells.get("response_flags") or cells.get("RESPONSE_FLAGS") or ""))
    return flags or of_word(cells.get("response_code", cells.get("RESPONSE_CODE", 0)) or 0)


def _is_litellm(file: LogFile) -> str:
    if {"startTime", "endTime", "call_type", "completion_tokens"} <= _keys(file):
        return "its columns are those of LiteLLM_SpendLogs (startTime, endTime, call_type, completion_tokens)"
    return ""


def _litellm_rows(file: LogFile) -> Numbered:
    for number, cells in _records(file):
        if isinstance(cells, str):
            yield number, cells
        elif str(cells.get("cache_hit", "")).lower() == "true":
            yield number, "was answered from LiteLLM's own cache: no engine saw it"
        else:
            yield number, _litellm_cells(cells)


def _litellm_cells(cells: Cells) -> Cells:
    """LiteLLM writes the end as the first token's instant where an answer was not streamed, and 0 for what it lacks."""
    started, ended = cells.get("completionStartTime"), cells.get("endTime")
    streamed = bool(started) and started != ended
    more: Cells = {"streaming": streamed if started else None}
    if streamed:
        more["first_token_at"] = started
    return cells | more


def _litellm_ending(cells: Cells) -> Ending | None:
    status = cells.get("status")
    return COMPLETED if not status else of_word(status)


def _paired_ending(cells: Cells) -> Ending | None:
    return {"open": OPEN, "cancelled": LEFT}.get(str(cells.get("status", "")))


def _is_table(file: LogFile) -> str:
    keys = _keys(file)
    kind = "Parquet" if file.is_parquet else "JSON" if file.head.lstrip()[:1] in {b"{", b"["} else "CSV"
    arrival = next((source.key for source in _COMMON["arrived_at"] if source.key in keys), "")
    return f"it is {kind} and has a column {arrival!r}" if arrival else ""


def _table_ending(cells: Cells) -> Ending | None:
    """A column `error` with anything in it is a failure, whatever the status says."""
    error = cells.get("error")
    if is_empty(error) or error in (False, 0, "0", "False", "false"):
        return None
    try:
        return of_word(error)
    except ValueError:
        return FAILED


TABLE: Final = Format("table", _is_table, _records, _COMMON, _table_ending, ())
"""CSV, JSON or Parquet whose columns are found by name, or named by a mapping."""
FORMATS: Final = (
    Format("OTLP spans", otlp.recognise, otlp.rows, _OTLP, otlp.ending, (
        "A span covers all retries of its request; the tenant is the first of tenant.id, user.id, service.name that is "
        "there (another one: --map tenant=ATTRIBUTE).",)),
    Format("LiteLLM spend log", _is_litellm, _litellm_rows, _LITELLM, _litellm_ending, (
        "Times are the proxy's, upstream and network included; requests that LiteLLM refused by its own limits may "
        "not be in the log.",)),
    Format("Envoy access log", _is_envoy, _envoy_rows, _ENVOY, _envoy_ending, (
        "Envoy sees bytes, not tokens: response headers come before the first token, so TTFT is unknown. A 429 is "
        "taken for the tenant's own limit.",)),
    Format("llama-server log", llamaserver.recognise, llamaserver.rows, _PAIRED, _paired_ending, (
        "Counted from the moment a task had a slot: waiting for one is not in the log, nor who asked.",)),
    Format("vLLM request log", vllmlog.recognise, vllmlog.rows, _PAIRED, _paired_ending, (
        "Instants are whole seconds: TTFT and E2E are right to 1 s. The year is the file's own. Where vLLM was told "
        "--max-log-len, lengths stop there.",)),
    TABLE,
)  # fmt: skip
"""Looked through in order."""


def _shown(text: str) -> str:
    """Short, and without what would speak to the terminal: columns of a file that is no text are anything."""
    return "".join(char if char.isprintable() and char != "\ufffd" else "?" for char in text[:200])


def recognise(file: LogFile, mapped: bool) -> tuple[Format, str]:
    """The format and why; with a mapping whatever is no known log is a table. TraceError where it is none."""
    for form in FORMATS:
        reason = form.recognise(file)
        if reason:
            return form, reason
    if mapped and (file.is_parquet or _keys(file)):
        return TABLE, "it was given a mapping"
    if not file.head.strip():
        raise TraceError(file.name, 0, "is empty")
    if file.damage:
        raise TraceError(file.name, 0, f"is damaged, and what is whole of it is no log that is known: {file.damage}")
    keys = ", ".join(sorted(_keys(file))[:12])
    raise TraceError(
        file.name, 0,
        f"is of no known format ({', '.join(form.name for form in FORMATS)}); its columns: {_shown(keys) or 'none'}. "
        "Name them: --map arrived_at=COLUMN --map e2e=COLUMN:ms",
    )  # fmt: skip
