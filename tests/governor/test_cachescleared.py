"""A replica that says that its cache is empty draws nobody by what it held."""

from plimsoll.governor.decisions import Dispatch
from plimsoll.governor.events import CachesCleared
from plimsoll.policy.document import parse
from tests.governor.service import Service, only
from tests.governor.test_steady import TEXT, URLS
from tests.laws.histories import START

HASHES = (11, 12, 13)


def held_by_the_first() -> Service:
    """The prefix was computed on the first replica, which is now a little busier than the others."""
    service = Service(parse(TEXT))
    assert sent(service, 1.0) == URLS[0]
    service.done(1.1, 1)
    assert only(Dispatch, service.ask(1.2, "bob")).replica == URLS[0]
    return service


def sent(service: Service, at: float) -> str:
    return only(Dispatch, service.ask(at, "bob", prompt=1600, prefix_hashes=HASHES)).replica


def test_it_draws_nobody_by_what_it_held() -> None:
    service = held_by_the_first()
    service.governor.handle(CachesCleared(START + 1.3, (URLS[0], "http://nobody")))
    assert sent(service, 1.4) == URLS[1]


def test_others_keep_theirs() -> None:
    service = held_by_the_first()
    service.governor.handle(CachesCleared(START + 1.3, URLS[1:]))
    assert sent(service, 1.4) == URLS[0]
