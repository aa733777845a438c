"""What a request's attributes are called: OpenTelemetry's GenAI conventions where they have a name, else `plimsoll.…`.

Both generations are written, that of semantic conventions 1.27 to 1.41 and that of semantic-conventions-genai 0.1: of
spans they differ in `gen_ai.system` (now `gen_ai.provider.name`) and in the names of cached tokens.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from plimsoll import __version__
from plimsoll.requestlog.record import Record, format_request_id
from plimsoll.slo.outcome import Outcome

Value = str | bool | int | float | tuple[str, ...] | None
TENANT: Final = "plimsoll.tenant"
"""The conventions have no attribute for tenants; other names can be chosen."""
PROVIDER: Final = "plimsoll"
OPERATIONS: Final = {"completions": "text_completion", "responses": "chat", "messages": "chat"}
NANO: Final = 1_000_000_000


def nanoseconds(at: float) -> int:
    """An instant, UTC epoch s, as OTLP has it."""
    return round(at * 1_000_000) * 1000  # floats of today's seconds are exact to a quarter of a microsecond


def attribute(name: str, value: Value) -> KeyValue:
    """One attribute; see `attributes` for those that are unknown."""
    if isinstance(value, bool):
        held = AnyValue(bool_value=value)
    elif isinstance(value, int):
        held = AnyValue(int_value=value)
    elif isinstance(value, float):
        held = AnyValue(double_value=value)
    elif isinstance(value, tuple):
        held = AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=text) for text in value]))
    else:
        held = AnyValue(string_value=str(value))
    return KeyValue(key=name, value=held)


def attributes(named: Mapping[str, Value]) -> list[KeyValue]:
    """Those that are known: what is None or empty is left out (unknown is not zero)."""
    return [attribute(name, value) for name, value in named.items() if value is not None and value not in {"", ()}]


def operation_of(record: Record) -> str:
    """`gen_ai.operation.name`; the endpoint's own name where the conventions have none."""
    return OPERATIONS.get(record.endpoint, record.endpoint)


def error_of(record: Record) -> str:
    """`error.type`: our reason, where the request did not simply complete."""
    return "" if record.outcome is Outcome.COMPLETED else record.reason.value


def request_attributes(record: Record, tenant: str = TENANT) -> list[KeyValue]:
    """All that a row says of its request, but for instants and texts. `tenant` is that attribute's name."""
    broken = tuple(verdict.objective for verdict in record.verdicts if verdict.num_bad)
    return attributes(
        {
            "gen_ai.operation.name": operation_of(record),
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.system": PROVIDER,
            "gen_ai.request.model": record.model,
            "gen_ai.conversation.id": record.session,
            "gen_ai.usage.input_tokens": record.prompt_tokens or None,
            "gen_ai.usage.output_tokens": record.output_tokens if record.dispatched_at is not None else None,
            "gen_ai.usage.cache_read.input_tokens": record.cached_tokens,
            "server.address": record.replica,
            "error.type": error_of(record),
            tenant: record.tenant,
            "plimsoll.request.id": format_request_id(record.request_id),
            "plimsoll.client_request.id": record.client_request_id,
            "plimsoll.tier": record.tier,
            "plimsoll.pool": record.pool,
            "plimsoll.outcome": record.outcome.value,
            "plimsoll.reason": record.reason.value,
            "plimsoll.phase": record.phase.value,
            "plimsoll.cause": record.cause,
            "plimsoll.criticality": str(record.criticality),
            "plimsoll.streaming": record.streaming,
            "plimsoll.adapter": record.adapter,
            "plimsoll.degraded": record.degraded,
            "plimsoll.attempts": record.attempts or None,
            "plimsoll.ttft": record.ttft,
            "plimsoll.e2e": record.e2e,
            "plimsoll.queued": record.queued_for,
            "plimsoll.plugin_time": record.plugin_time,
            "plimsoll.plugins": record.plugins,
            "plimsoll.predicted_ttft": record.predicted_ttft,
            "plimsoll.predicted_tpot": record.predicted_tpot,
            "plimsoll.client_stall": record.client_stall or None,
            "plimsoll.upstream": record.upstream_time,
            "plimsoll.broken_objectives": broken,
            "plimsoll.charge": record.charge.value if record.charge else None,
            "plimsoll.policy.version": record.policy_version,
        }
    )


def resource(named: Iterable[tuple[str, str]] = ()) -> Resource:
    """Who speaks; `named` are more attributes, or others for the same names."""
    said = {"service.name": "plimsoll", "service.version": __version__} | dict(named)
    return Resource(attributes=attributes(said))


def scope() -> InstrumentationScope:
    """The part of us that speaks."""
    return InstrumentationScope(name="plimsoll.telemetry.otel", version=__version__)
