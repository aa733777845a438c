"""From the governor's Dispatch to what the data path sends: the body's patches and the headers' changes."""

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from plimsoll.gateway import patches
from plimsoll.gateway.flight import Flight
from plimsoll.gateway.hands import Attempt, Headers
from plimsoll.gateway.labels import OURS, REQUEST_ID, TRACEPARENT, traceparent
from plimsoll.gateway.vouching import HOP, sign_hop
from plimsoll.governor.decisions import Dispatch
from plimsoll.governor.events import Endpoint
from plimsoll.policy.policy import Policy
from plimsoll.slo.timing import TokenClock

NO_DRAFTS: Final = "speculative.n_max"  # llama.cpp's: so many tokens may be drafted for the request
OUR_ID: Final = b"x-plimsoll-request-id"
ASKS_FOR_USAGE: Final = frozenset({Endpoint.CHAT, Endpoint.COMPLETIONS})  # the others' streams always tell it
CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key", b"cookie"})  # ours, not the engine's
DROPPED: Final = CREDENTIALS | OURS | {REQUEST_ID, TRACEPARENT}
DROPPED_WITH_STATE: Final = DROPPED | {b"tracestate"}
CORS_HEADERS: Final = frozenset(
    b"access-control-" + name
    for name in (
        b"allow-origin",
        b"allow-credentials",
        b"allow-methods",
        b"allow-headers",
        b"expose-headers",
        b"max-age",
    )
)
ANSWER_DROPPED: Final = CORS_HEADERS | {REQUEST_ID}
ENGINE_HEADERS: Final = frozenset({b"server", b"x-powered-by", b"openai-version", b"openai-processing-ms"})


class Attempts:
    """Makes attempts under one policy."""

    def __init__(self, policy: Policy, secrets: Sequence[bytes]) -> None:
        """`secrets`: those of `service.upstream_secrets`, read; hops are signed with the first."""
        self._engine_keys: dict[str, Headers] = {}
        self._aliases = {(pool.name, alias): pool.model for pool in policy.pools for alias in pool.aliases}
        for pool in policy.pools:
            if pool.engine_key and (key := os.environ.get(pool.engine_key, "")):
                self._engine_keys[pool.name] = ((b"authorization", b"Bearer " + key.encode()),)
        self._hop_secret = secrets[0] if policy.gateway.mark_hop and secrets else b""
        self._answer_dropped = ANSWER_DROPPED | ENGINE_HEADERS if policy.gateway.hide_engine_headers else ANSWER_DROPPED

    def attempt(self, flight: Flight, dispatch: Dispatch, tokens: TokenClock, cors: Headers) -> Attempt:
        """What is sent to that replica for that request, and what of its answer changes. Runs on every request."""
        body = flight.body
        labels = flight.labels
        streaming = body is not None and body.streaming
        hide_usage = streaming and flight.endpoint in ASKS_FOR_USAGE and body is not None and not body.wants_usage
        model = self._model(flight, dispatch)
        changed = (
            hide_usage or model or dispatch.max_output_tokens or dispatch.priority is not None or not dispatch.drafts
        )
        shown_id = b"req-%016x" % flight.request_id
        client_id = labels.client_request_id
        add_headers: Headers = (
            (REQUEST_ID, shown_id),
            (TRACEPARENT, traceparent(labels.trace_id, flight.request_id, labels.trace_flags)),
        )
        if self._hop_secret:
            at = b"%.6f" % flight.exchange.request.arrived_at
            add_headers = (*add_headers, (HOP, sign_hop(self._hop_secret, at, labels.trace_id.encode())))
        engine_key = self._engine_keys.get(dispatch.pool)
        answer_headers: Headers = (
            (REQUEST_ID, client_id.encode("latin-1") if client_id else shown_id),
            (OUR_ID, shown_id),
        )
        if dispatch.degraded or cors:
            degraded = ((b"x-plimsoll-degraded", dispatch.degraded.encode()),) if dispatch.degraded else ()
            answer_headers = (*answer_headers, *degraded, *cors)
        return Attempt(
            dispatch.replica,
            tokens,
            flight.endpoint,
            streaming=streaming,
            body=patched(flight, dispatch, model, ask_for_usage=hide_usage) if changed else None,
            drop_headers=DROPPED if labels.continues_trace else DROPPED_WITH_STATE,
            add_headers=(*add_headers, *engine_key) if engine_key else add_headers,
            drop_answer_headers=self._answer_dropped,
            add_answer_headers=answer_headers,
            reserved_output_tokens=dispatch.reserved_output_tokens,
            hide_usage=hide_usage,
            prefill=self._prefill(flight, dispatch, tokens, add_headers) if dispatch.prefill else None,
        )

    def _prefill(self, flight: Flight, dispatch: Dispatch, tokens: TokenClock, add_headers: Headers) -> Attempt | None:
        """What the engine is sent that computes the prompt first; None where the body cannot ask for that."""
        body = flight.body
        if body is None or not body.is_json or body.prompt.num_prompts > 1:
            return None
        own = patched(flight, dispatch, self._model(flight, dispatch), ask_for_usage=False)
        return Attempt(
            dispatch.prefill,
            tokens,
            flight.endpoint,
            body=patches.for_prefill(flight.exchange.request.body if own is None else own),
            drop_headers=DROPPED if flight.labels.continues_trace else DROPPED_WITH_STATE,
            add_headers=(*add_headers, *self._engine_keys.get(dispatch.pool, ())),
        )

    def _model(self, flight: Flight, dispatch: Dispatch) -> str:
        """The name to write into the body; "": the client's own stays."""
        if not dispatch.model and self._aliases and flight.body is not None:
            return self._aliases.get((dispatch.pool, flight.body.model), "")
        return dispatch.model


def patched(flight: Flight, dispatch: Dispatch, model: str, *, ask_for_usage: bool) -> bytes | None:
    """The body with what the decision and an alias change; None where the client's own bytes go out."""
    body = flight.body
    original = flight.exchange.request.body
    if body is None or not body.is_json:
        return None
    data = original
    if ask_for_usage:
        data = patches.ask_for_usage(data, says_stream_options=body.says_stream_options)
    if dispatch.priority is not None and body.cap_name:
        data = patches.put(data, "priority", b"%d" % dispatch.priority)
    if dispatch.max_output_tokens and body.cap_name:
        data = patches.put(data, body.cap_name, b"%d" % dispatch.max_output_tokens)
    if not dispatch.drafts and body.cap_name:
        data = patches.put(data, NO_DRAFTS, b"0")
    if model and model != body.model:
        data = patches.put(data, "model", msgspec.json.encode(model))
    return None if data is original else data
