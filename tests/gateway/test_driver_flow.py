"""The driver: events out in order, decisions carried out, the books before the wire."""

import json
from typing import Any

import msgspec
import pytest

from plimsoll.gateway.hands import ClientRequest, Usage
from plimsoll.gateway.usage import read_usage
from plimsoll.governor.decisions import (
    Decision,
    Dispatch,
    Enqueue,
    Evict,
    Expire,
    Fail,
    MoveReason,
    MoveStep,
    Reassign,
    Reject,
    Settle,
    Shed,
    WakeAt,
)
from plimsoll.governor.events import (
    AttemptFailed,
    Criticality,
    DrainStarted,
    Endpoint,
    FirstToken,
    PolicyChanged,
    ReplicasReported,
    RequestArrived,
    RequestCancelled,
    RequestFinished,
    RequestRefused,
    ReservationOutgrown,
    TimerFired,
)
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome, Phase, Reason
from tests.gateway.drivenworld import BODY, POLICY, RememberedExchange, World


def dispatch(event: RequestArrived, **changes: Any) -> list[Decision]:
    decision = Dispatch(event.request_id, "chat", "http://r1", "gold", Reason.FITS, 64)
    return [msgspec.structs.replace(decision, **changes)]


def settled(request_id: int) -> Settle:
    fields = [None] * len(Record.__struct_fields__)
    return Settle(Record(request_id, *fields[1:]), ())  # type: ignore[arg-type]  # only the id is looked at


@pytest.fixture
def world() -> World:
    world = World()
    world.governor.script = {
        RequestArrived: dispatch,
        RequestFinished: lambda event: [settled(event.request_id)],
        RequestRefused: lambda event: [settled(event.request_id)],
    }
    return world


def test_a_request_arrives_as_it_was_sent(world: World) -> None:
    world.send(
        x_plimsoll_tier=b"bronze", x_plimsoll_cause=b"chat", x_plimsoll_criticality=b"default", x_request_id=b"c1"
    )
    event = world.arrival
    assert (event.tenant, event.model, event.tier, event.cause) == ("acme", "m", "bronze", "chat")
    assert (event.endpoint, event.streaming) == (Endpoint.CHAT, True)
    assert event.criticality is Criticality.DEFAULT
    assert event.client_request_id == "c1"
    assert 5 < event.prompt_tokens < 60
    assert len(event.trace_id) == 32
    assert event.parent_span_id == ""
    assert event.at == world.clock()


def test_whose_span_a_request_is_below_is_kept_also_where_it_is_refused(world: World) -> None:
    trace = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    world.send(traceparent=trace)
    assert (world.arrival.trace_id, world.arrival.parent_span_id) == (trace[3:35].decode(), "00f067aa0ba902b7")
    world.send(b"{", traceparent=trace)
    refused = world.governor.last(RequestRefused)
    assert (refused.trace_id, refused.parent_span_id) == (trace[3:35].decode(), "00f067aa0ba902b7")


def test_the_books_come_before_the_wire(world: World) -> None:
    exchange = world.send()
    exchange.end(usage=Usage(12, 3))
    assert world.log == ["opened", "forward", "flush", "settle", "flush", "last bytes"]
    event = world.governor.last(RequestFinished)
    assert (event.prompt_tokens, event.output_tokens, event.cached_tokens) == (12, 3, None)
    assert world.driver.num_open == 0


def test_settlements_of_others_come_first_too(world: World) -> None:
    first = world.send()
    world.governor.script[RequestArrived] = lambda event: [*dispatch(event), settled(first.context.request_id)]  # type: ignore[attr-defined]
    world.log.clear()
    world.send()
    assert world.log == ["opened", "settle", "flush", "forward"]


def test_the_attempt_asks_for_usage_and_hides_it(world: World) -> None:
    attempt = world.send().attempts[0]
    assert json.loads(attempt.body or b"") == json.loads(BODY) | {"stream_options": {"include_usage": True}}
    assert attempt.hide_usage
    assert attempt.reserved_output_tokens == 64
    asked = BODY[:-1] + b', "stream_options": {"include_usage": true}}'
    attempt = world.send(asked).attempts[0]
    assert attempt.body is None
    assert not attempt.hide_usage
    plain = world.send(BODY.replace(b"true", b"false")).attempts[0]
    assert plain.body is None
    assert not plain.hide_usage


def test_a_degraded_renamed_prioritised_body(world: World) -> None:
    changes = {"max_output_tokens": 7, "model": "m-small", "priority": 3, "degraded": "tokens"}
    world.governor.script[RequestArrived] = lambda event: dispatch(event, **changes)
    attempt = world.send(BODY.replace(b'"m"', b'"nick"')).attempts[0]
    sent = json.loads(attempt.body or b"")
    assert (sent["model"], sent["max_tokens"], sent["priority"]) == ("m-small", 7, 3)
    assert (b"x-plimsoll-degraded", b"tokens") in attempt.add_answer_headers


def test_an_engine_is_asked_for_its_own_model_by_whatever_alias(world: World) -> None:
    plain = BODY.replace(b"true", b"false")
    assert world.send(plain.replace(b'"m"', b'"nick"')).attempts[0].body == plain
    assert world.send(plain).attempts[0].body is None


def test_an_alias_of_several_classes_is_each_pools_own_model() -> None:
    (pool,) = POLICY.pools
    pools = (
        msgspec.structs.replace(pool, name="big", model="m70", sla_class="fast"),
        msgspec.structs.replace(pool, name="small", model="m3", sla_class="slow", replicas=("http://r3",)),
    )
    world = World(msgspec.structs.replace(POLICY, pools=pools))
    for name, model in (("big", "m70"), ("small", "m3")):
        world.governor.script[RequestArrived] = lambda event, name=name: dispatch(event, pool=name)  # type: ignore[misc]
        attempt = world.send(BODY.replace(b'"m"', b'"nick"')).attempts[0]
        assert json.loads(attempt.body or b"")["model"] == model


def test_keys_and_labels_stay_with_us(world: World) -> None:
    trace = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
    attempt = world.send(traceparent=trace, x_request_id=b"mine").attempts[0]
    assert {b"authorization", b"x-api-key", b"x-plimsoll-tier", b"x-request-id"} <= attempt.drop_headers
    assert b"tracestate" not in attempt.drop_headers
    added = dict(attempt.add_headers)
    assert added[b"x-request-id"] == b"req-0000010000000000"
    assert added[b"traceparent"] == b"00-4bf92f3577b34da6a3ce929d0e0e4736-0000010000000000-00"
    assert dict(attempt.add_answer_headers)[b"x-request-id"] == b"mine"
    assert b"tracestate" in world.send().attempts[0].drop_headers


@pytest.mark.parametrize(
    ("fields", "body", "target", "status", "says"),
    [
        ({"authorization": b"Bearer no"}, BODY, b"/v1/chat/completions", 401, "key"),
        ({}, b'{"model": }', b"/v1/chat/completions", 400, "(byte 10)"),
        ({}, BODY.replace(b"true", b"3"), b"/v1/chat/completions", 400, "`$.stream`"),
        ({"x_plimsoll_criticality": b"x"}, BODY, b"/v1/chat/completions", 400, "x-plimsoll-criticality"),
        ({}, BODY, b"/v2/chat", 404, "/v2/chat"),
        ({}, BODY, b"/v1/../metrics", 404, "endpoint"),
        ({}, BODY, b"/v1/load_lora_adapter", 404, "endpoint"),
        ({}, BODY, b"/v1/%6coad_lora_adapter", 404, "endpoint"),
        ({}, BODY, b"/v1/./load_lora_adapter", 404, "endpoint"),
        ({}, BODY, b"/v1/x/.%2e/load_lora_adapter", 404, "endpoint"),
        ({}, BODY, b"/v1/chat%2Fcompletions", 404, "endpoint"),
        ({}, BODY, b"/v1/%63hat/completions", 404, "endpoint"),
    ],
)
def test_refusals_before_the_governor(  # noqa: PLR0917 - a table of cases
    world: World, fields: dict[str, bytes], body: bytes, target: bytes, status: int, says: str
) -> None:
    exchange = world.send(body, target=target, **fields)
    assert exchange.answered is not None
    assert exchange.answered[0] == status
    assert says in exchange.answered[2].decode()
    if status == 401:
        assert world.driver.unattributed == {Reason.UNKNOWN_KEY: 1}
        assert not world.governor.events
    else:
        assert world.governor.last(RequestRefused).tenant == "acme"
        assert world.log == ["settle", "flush", "answer"]


def test_a_wrong_method_is_told_the_right_one(world: World) -> None:
    exchange = world.send(b"", b"GET")
    assert exchange.answered is not None
    assert (exchange.answered[0], exchange.answered[1][b"allow"]) == (405, b"POST")


@pytest.mark.parametrize("kind", [Reject, Shed, Expire, Fail])
def test_turning_away_after_the_governor_saw_it(world: World, kind: type[Reject | Shed | Expire | Fail]) -> None:
    def refuse(event: RequestArrived) -> list[Decision]:
        return [kind(event.request_id, Reason.QUEUE_FULL, 2.25), settled(event.request_id)]

    world.governor.script[RequestArrived] = refuse
    exchange = world.send()
    assert exchange.answered is not None
    status, headers, body = exchange.answered
    assert (status, headers[b"retry-after"], headers[b"retry-after-ms"]) == (503, b"3", b"2250")
    assert json.loads(body)["plimsoll"]["reason"] == "queue_full"
    assert world.log == ["settle", "flush", "answer"]
    assert world.driver.num_open == 0


def test_unknown_models_are_told_the_known_ones(world: World) -> None:
    world.governor.script[RequestArrived] = lambda event: [Reject(event.request_id, Reason.UNKNOWN_MODEL)]
    exchange = world.send(BODY.replace(b'"m"', b'"gpt-9"'))
    assert exchange.answered is not None
    error = json.loads(exchange.answered[2])["error"]
    assert (exchange.answered[0], error["code"], error["param"]) == (404, "model_not_found", "model")
    assert "known: m, nick" in error["message"]


def test_a_request_has_one_id_wherever_it_is_refused(world: World) -> None:
    shown = []
    for body in (b"{", BODY, b'{"model": 1}', BODY):
        exchange = world.send(body)
        shown.append(exchange.answered[1][b"x-plimsoll-request-id"] if exchange.answered else world.arrival.request_id)
    assert shown == [b"req-0000010000000000", (1 << 40) + 1, b"req-0000010000000002", (1 << 40) + 3]


def test_a_body_sent_again_is_known_and_another_is_not(world: World) -> None:
    """Whatever is learnt meanwhile about the length of prompts: promises to come back are kept by it."""
    hashes = []
    for body in (BODY, BODY, BODY.replace(b"hello", b"hallo"), BODY.replace(b"hello", b"x" * 20_000)):
        exchange = world.send(body)
        hashes.append(world.arrival.body_hash)
        exchange.end(usage=Usage(30, 3))
    assert hashes[0] == hashes[1] != 0
    assert len(set(hashes)) == 3


def test_the_governors_numbers_reach_the_client(world: World) -> None:
    detail = "prompt 40000 tokens, largest context 32768"
    world.governor.script[RequestArrived] = lambda event: [
        Reject(event.request_id, Reason.PROMPT_TOO_LONG, 0.0, detail)
    ]
    exchange = world.send()
    assert exchange.answered is not None
    assert exchange.answered[0] == 400
    assert detail in exchange.answered[2].decode()


def test_a_queued_client_leaves(world: World) -> None:
    world.governor.script[RequestArrived] = lambda event: [Enqueue(event.request_id, "gold", Reason.POOL_FULL)]
    exchange = world.send()
    assert world.log == ["opened", "flush"]
    world.driver.client_left(exchange, world.clock())
    assert world.governor.last(RequestCancelled).request_id == world.arrival.request_id
    assert world.driver.num_open == 0


def test_progress_is_passed_on(world: World) -> None:
    exchange = world.send()
    world.driver.first_token(exchange, 1.0)
    world.driver.outgrown(exchange, 65, 2.0)
    world.driver.attempt_failed(exchange, Reason.CONNECT_FAILED, 1.5, 3.0)
    request_id = world.arrival.request_id
    assert world.governor.events[1:] == [
        FirstToken(1.0, request_id),
        ReservationOutgrown(2.0, request_id, 65),
        AttemptFailed(3.0, request_id, Reason.CONNECT_FAILED, 1.5),
    ]


def test_attempts_share_one_clock_of_tokens(world: World) -> None:
    exchange = world.send()
    world.governor.script[AttemptFailed] = dispatch
    world.driver.attempt_failed(exchange, Reason.CONNECT_FAILED, 0.0, world.clock())
    first, second = exchange.attempts
    assert first.tokens is second.tokens
    assert world.log.count("opened") == 1


def test_one_timer_the_latest(world: World) -> None:
    world.governor.script[RequestArrived] = lambda event: [WakeAt(world.clock() + 5)]
    world.send()
    world.governor.script[RequestArrived] = lambda event: [WakeAt(world.clock() + 2)]
    world.send()
    world.clock.advance(world.clock() + 10)
    assert [event for event in world.governor.events if isinstance(event, TimerFired)] == [TimerFired(1002.0)]


def test_a_large_body_is_read_beside_the_loop(world: World) -> None:
    large = BODY.replace(b"hello", b"hello " * 60_000)
    exchange = world.send(large)
    assert not world.governor.events
    world.send()
    assert len(world.governor.events) == 1
    world.offloaded.pop()()
    assert world.arrival.prompt_tokens > 50_000
    assert exchange.attempts


def test_who_leaves_while_a_large_body_is_read_is_counted(world: World) -> None:
    exchange = world.send(BODY.replace(b"hello", b"hello " * 60_000))
    world.driver.client_left(exchange, world.clock())
    world.offloaded.pop()()
    assert world.governor.last(RequestRefused).reason is Reason.CLIENT_LEFT
    assert not exchange.attempts


def test_a_full_journal_refuses(world: World) -> None:
    world.books.accepting = False
    exchange = world.send()
    assert exchange.answered is not None
    assert exchange.answered[0] == 503
    assert world.governor.last(RequestRefused).reason is Reason.STORAGE_FULL


def test_eviction_settles_within_the_call(world: World) -> None:
    evicted = world.send().context.request_id  # type: ignore[attr-defined]
    world.governor.script[TimerFired] = lambda event: [Evict(evicted, Reason.OVERLOAD)]
    world.governor.script[RequestArrived] = lambda event: [WakeAt(world.clock())]
    world.send()
    world.clock.advance(world.clock())
    finished = world.governor.last(RequestFinished)
    assert (finished.outcome, finished.reason) == (Outcome.EVICTED, Reason.OVERLOAD)


def test_draining_and_ending_all(world: World) -> None:
    exchange = world.send()
    world.driver.drain(30.0)
    assert world.governor.last(DrainStarted).grace == 30.0
    ready = world.send(b"", b"GET", b"/readyz")
    assert ready.answered is not None
    assert ready.answered[0] == 503
    world.driver.end_all(Reason.DRAIN_TIMEOUT)
    assert world.governor.last(RequestFinished).reason is Reason.DRAIN_TIMEOUT
    assert not exchange.open


def test_a_new_policy_holds_for_new_requests(world: World) -> None:
    exchange = world.send()
    world.driver.change_policy(msgspec.structs.replace(POLICY, tenants=()), {})
    assert world.governor.last(PolicyChanged).policy.tenants == ()
    assert world.send().answered is not None
    exchange.end()
    assert world.governor.last(RequestFinished).outcome is Outcome.COMPLETED


def test_the_prompt_estimate_is_learnt(world: World) -> None:
    body = BODY.replace(b"hello", b"hello " * 2000)
    world.send(body)
    guessed = world.arrival.prompt_tokens
    for _ in range(50):
        world.send(body).end(usage=Usage(6000, 5))
    world.send(body)
    assert guessed < 4000
    assert abs(world.arrival.prompt_tokens - 6000) < 200


@pytest.mark.parametrize("tokens", [1 << 40, -1, 100_000_000])
def test_an_engine_that_counts_wildly_does_not_close_the_door_to_the_next(world: World, tokens: int) -> None:
    world.send().end(usage=read_usage(b'{"prompt_tokens": %d, "completion_tokens": %d}' % (tokens, tokens)))
    world.send()
    assert world.arrival.prompt_tokens < 100


def test_our_own_pages(world: World) -> None:
    models = world.send(b"", b"GET", b"/v1/models")
    assert models.answered is not None
    assert [entry["id"] for entry in json.loads(models.answered[2])["data"]] == ["m", "nick"]
    one = world.send(b"", b"GET", b"/v1/models/m")
    assert one.answered is not None
    assert json.loads(one.answered[2])["id"] == "m"
    escaped = world.send(b"", b"GET", b"/v1/models/%6eic%6B")
    assert escaped.answered is not None
    assert json.loads(escaped.answered[2])["id"] == "nick"
    none = world.send(b"", b"GET", b"/v1/models/x")
    assert none.answered is not None
    assert none.answered[0] == 404
    stranger = world.send(b"", b"GET", b"/v1/models", authorization=b"")
    assert stranger.answered is not None
    assert stranger.answered[0] == 401
    assert not [event for event in world.governor.events if isinstance(event, RequestArrived)]


def test_pass_through_is_governed(world: World) -> None:
    exchange = world.send(b"", b"GET", b"/v1/files?limit=3")
    assert (world.arrival.endpoint, world.arrival.model, world.arrival.prompt_tokens) == (Endpoint.OTHER, "m", 0)
    assert exchange.attempts[0].body is None
    assert exchange.attempts[0].target is None


def test_browsers_are_answered(world: World) -> None:
    asked = {"origin": b"https://app.example", "access_control_request_method": b"POST", "authorization": b""}
    exchange = world.send(b"", b"OPTIONS", **asked)
    assert exchange.answered is not None
    status, headers, _ = exchange.answered
    assert (status, headers[b"access-control-allow-origin"]) == (204, b"https://app.example")
    foreign = world.send(b"", b"OPTIONS", **(asked | {"origin": b"https://evil.example"}))
    assert foreign.answered is not None
    assert b"access-control-allow-origin" not in foreign.answered[1]
    attempt = world.send(origin=b"https://app.example").attempts[0]
    assert (b"access-control-allow-origin", b"https://app.example") in attempt.add_answer_headers
    assert b"access-control-allow-origin" in attempt.drop_answer_headers


def test_words_for_what_breaks_later(world: World) -> None:
    exchange = world.send()
    assert world.driver.failure(exchange, Reason.TOTAL_TIMEOUT).status == 504
    assert b"total_timeout" in world.driver.failure_event(exchange, Reason.TOTAL_TIMEOUT)
    messages = world.send(b'{"model":"m","max_tokens":3,"messages":[]}', target=b"/v1/messages")
    assert world.driver.failure_event(messages, Reason.TOTAL_TIMEOUT).startswith(b"event: error\n")


def test_refusals_of_the_data_path(world: World) -> None:
    request = ClientRequest(world.clock(), "")
    answer = world.driver.refusal(request, Reason.BAD_REQUEST, world.clock())
    assert (answer.status, world.driver.unattributed) == (400, {Reason.BAD_REQUEST: 1})
    assert world.driver.head_read(request) is not None
    request = world.send().request
    assert world.driver.head_read(request) is None
    assert b"limit" in world.driver.refusal(request, Reason.BODY_TOO_LARGE, world.clock()).body
    assert world.governor.last(RequestRefused).reason is Reason.BODY_TOO_LARGE


def test_an_end_without_a_dispatch_is_a_bug(world: World) -> None:
    exchange = RememberedExchange(world, ClientRequest(0.0, ""))
    with pytest.raises(TypeError):
        exchange.end()
    assert exchange.phase is Phase.QUEUE


def test_a_replica_that_goes_to_another_pool_is_written_down() -> None:
    world = World()
    move = Reassign(1.0, "http://r1", "chat", "long", MoveStep.MOVED, MoveReason.DEMAND, 1, 2, 0.3, 1.8)
    world.governor.script[ReplicasReported] = lambda event: [move]
    world.driver.replicas_reported(())
    assert world.books.moves == [move]
    assert world.log == ["reassigned", "flush"]
