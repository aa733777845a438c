"""What engines say of a prompt decides where it goes, instead of, or beside, what was sent there."""

from typing import Any

from plimsoll.governor.decisions import Dispatch
from plimsoll.governor.events import RequestArrived
from plimsoll.governor.matched import Matched
from plimsoll.governor.recording import decode, encode
from plimsoll.policy.document import parse
from tests.governor.service import Service, only, row
from tests.governor.test_steady import TEXT, URLS
from tests.laws.histories import START

HASHES = (11, 12, 13)


def matched(*tokens: int, whole: bool = True, asked_at: float = 0.0) -> Matched:
    """So many tokens are held by the first, second … replica."""
    return Matched(START + asked_at, tuple(URLS[: len(tokens)]), tokens, (whole,) * len(tokens))


def sent(service: Service, at: float, **more: Any) -> str:
    told: dict[str, Any] = {"prompt": 1600, "prefix_hashes": HASHES} | more
    return only(Dispatch, service.ask(at, "bob", **told)).replica


def test_it_goes_where_it_is_held_whatever_was_sent_where() -> None:
    service = Service(parse(TEXT))
    assert sent(service, 1.0) == URLS[0]
    service.done(1.1, 1)
    assert sent(service, 1.2) == URLS[0], "by what was sent there"
    service.done(1.3, 2)
    assert sent(service, 1.4, matched=matched(0, 1536, asked_at=1.4)) == URLS[1]
    service.done(1.5, 3)
    assert sent(service, 1.6, matched=matched(0, 0, asked_at=1.6)) == URLS[0], "held nowhere: the first of equals"
    told = row(service.done(1.7, 4, cached_tokens=0))
    assert (told.cached_expected, told.cached_from, told.cached_tokens) == (0, "events", 0)


def test_what_is_known_in_part_counts_beside_what_was_sent() -> None:
    service = Service(parse(TEXT))
    assert sent(service, 1.0) == URLS[0]
    service.done(1.1, 1)
    assert sent(service, 1.2, matched=matched(0, 512, whole=False, asked_at=1.2)) == URLS[0]
    told = row(service.done(1.3, 2))
    assert (told.cached_expected, told.cached_from) == (1536, "sent")
    assert sent(service, 1.4, prefix_hashes=(7,), matched=matched(0, 512, whole=False, asked_at=1.4)) == URLS[1]
    told = row(service.done(1.5, 3))
    assert (told.cached_expected, told.cached_from) == (512, "sent")


def test_a_crowded_replica_draws_nobody_by_its_cache() -> None:
    service = Service(parse(TEXT), kv_blocks=10_000)
    places = []
    for number in range(10):
        service.report(1.0 + number)  # and what it computes has been seen
        places.append(sent(service, 1.0 + number, output=1, matched=matched(0, 1536, asked_at=1.0)))
        service.first(1.5 + number, number + 1)
    assert places[:9] == [URLS[1]] * 9
    assert places[9] != URLS[1], "1.5 times the mean and four more: its cache is worth nothing"


def test_asking_counts_as_time_in_the_queue() -> None:
    service = Service(parse(TEXT))
    sent(service, 1.25, matched=matched(0, 0, asked_at=1.0))
    told = row(service.done(1.5, 1))
    assert (told.arrived_at, told.queued_for, told.dispatched_at) == (START + 1.0, 0.25, START + 1.25)


def test_where_nobody_answered_it_is_known_by_what_was_sent() -> None:
    service = Service(parse(TEXT))
    assert sent(service, 1.0) == URLS[0]
    service.done(1.1, 1)
    assert sent(service, 1.2, matched=Matched(START + 1.15)) == URLS[0]
    told = row(service.done(1.3, 2))
    assert (told.cached_expected, told.cached_from) == (1536, "sent")


def test_short_prompts_say_that_nothing_was_known() -> None:
    service = Service(parse(TEXT))
    service.ask(1.0, "bob")
    told = row(service.done(1.1, 1))
    assert (told.cached_expected, told.cached_from) == (None, "")


def test_it_is_recorded_and_replayed() -> None:
    event = RequestArrived(START, 1, "bob", "m", 1600, prefix_hashes=HASHES, matched=matched(0, 1536, whole=False))
    assert decode(encode(event)) == event
