"""Tokens of a draft: what answers tell of them reaches the governor, and the engine's switch goes into the request."""

import json

import pytest

from plimsoll.gateway.hands import Usage
from plimsoll.gateway.stream import EventScanner
from plimsoll.gateway.usage import BodyEnds, read_usage
from plimsoll.governor.decisions import Decision, Dispatch
from plimsoll.governor.events import Endpoint, RequestArrived, RequestFinished
from plimsoll.slo.outcome import Reason
from tests.gateway.drivenworld import BODY, World

USAGE = {"prompt_tokens": 9, "completion_tokens": 35}
PREDICTED = {"accepted_prediction_tokens": 12, "rejected_prediction_tokens": 30}
DRAFTED = {"acceptance_histogram": [39, 1], "num_accepted_draft_tokens": 12, "num_draft_tokens": 42}
TOLD = {
    "OpenAI": {"usage": USAGE | {"completion_tokens_details": PREDICTED}},
    "vLLM": {"usage": USAGE, "metrics": {"speculative_decoding": DRAFTED}},
    "llama.cpp": {"usage": USAGE, "timings": {"predicted_n": 35, "draft_n": 42, "draft_n_accepted": 12}},
}
NONE = {
    "nothing": {"usage": USAGE},
    "half of it": {"usage": USAGE, "timings": {"draft_n": 42}},
    "no numbers": {"usage": USAGE, "timings": {"draft_n": "42", "draft_n_accepted": None}},
    "what a model wrote": {"usage": USAGE, "choices": [], "x": 'say "draft_n": 42, "draft_n_accepted": 12'},
    "no accepted ones": {"usage": USAGE | {"completion_tokens_details": {"reasoning_tokens": 18}}},
}


def streamed(document: object) -> Usage:
    scanner = EventScanner(Endpoint.CHAT)
    token = {"choices": [{"delta": {"content": "x"}}]}
    for event in (token, {"choices": []} | dict(document)):  # type: ignore[call-overload]
        scanner.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    scanner.feed(b"data: [DONE]\n\n")
    return scanner.usage()


def whole(document: object) -> Usage:
    ends = BodyEnds()
    data = json.dumps({"choices": [{"message": {"content": "x" * 99}}]} | dict(document)).encode()  # type: ignore[call-overload]
    for start in range(0, len(data), 40):
        ends.add(data[start : start + 40])
    return ends.usage()


@pytest.mark.parametrize("read", [streamed, whole])
@pytest.mark.parametrize("engine", TOLD)
def test_every_way_of_telling_it(engine: str, read: object) -> None:
    usage = read(TOLD[engine])  # type: ignore[operator]
    assert (usage.prompt_tokens, usage.output_tokens, usage.drafts) == (9, 35, (42, 12))


@pytest.mark.parametrize("read", [streamed, whole])
@pytest.mark.parametrize("what", NONE)
def test_what_is_not_told_stays_unknown(what: str, read: object) -> None:
    usage = read(NONE[what])  # type: ignore[operator]
    assert (usage.output_tokens, usage.drafts) == (35, (None, None))
    assert read_usage(b"").drafts == (None, None)


def dispatch(event: RequestArrived, *, drafts: bool) -> list[Decision]:
    return [Dispatch(event.request_id, "chat", "http://r1", "gold", Reason.FITS, 64, drafts=drafts)]


def test_the_governor_is_told() -> None:
    world = World()
    world.governor.script = {RequestArrived: lambda event: dispatch(event, drafts=True)}
    exchange = world.send()
    usage = Usage(9, 35)
    usage.drafts = (42, 12)
    exchange.end(usage=usage)
    event = world.governor.last(RequestFinished)
    assert (event.draft_tokens, event.accepted_tokens) == (42, 12)


def test_the_switch_goes_into_the_request_and_nothing_else_changes() -> None:
    world = World()
    for drafts in (True, False):
        world.governor.script = {RequestArrived: lambda event, drafts=drafts: dispatch(event, drafts=drafts)}  # type: ignore[misc]
        plain = BODY.replace(b"true", b"false")
        sent = world.send(plain).attempts[0].body
        if drafts:
            assert sent is None
        else:
            assert json.loads(sent or b"") == json.loads(plain) | {"speculative.n_max": 0}
    own = BODY.replace(b"true", b"false").replace(b'"stream"', b'"speculative.n_max": 16, "stream"')
    assert json.loads(world.send(own).attempts[0].body or b"")["speculative.n_max"] == 0
