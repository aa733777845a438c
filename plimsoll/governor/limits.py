"""A tenant's own limits and the bounds of the queues: refused by which, and when it is worth coming back.

Retry instants are predictions, and they are handed out one behind the other: of clients that obey them nearly all
are admitted when they return.
"""

from typing import Final

from plimsoll.governor.request import Request
from plimsoll.governor.tenants import Account
from plimsoll.slo.outcome import Reason

_CONCURRENCY: Final = Reason.TENANT_CONCURRENCY
_RATE: Final = Reason.TENANT_RATE
_TOKENS: Final = Reason.TENANT_TOKENS
_QUEUE: Final = Reason.TENANT_QUEUE
_FULL: Final = Reason.QUEUE_FULL


def refused_by(account: Account, request: Request, at: float) -> Reason | None:
    """The first of the tenant's own limits that the request exceeds; None: taken, and counted against them."""
    limit = account.held_against()
    if limit >= 0 and not account.slots.allows(at, account.num_open, limit, account.open_time, request.likeness):
        return _CONCURRENCY
    if account.requests is not None and not account.requests.has(1.0, at, request.likeness):
        return _RATE
    if account.tokens is not None and not account.tokens.has(request.token_estimate, at, request.likeness):
        return _TOKENS
    if account.requests is not None:
        account.requests.take(1.0)
    if account.tokens is not None:
        account.tokens.take(request.token_estimate)
    return None


def queue_is_full(account: Account, request: Request, at: float) -> Reason | None:
    """Which bound keeps another request from waiting; None where it may."""
    bound = account.max_waiting
    if bound >= 0:
        promises = account.queue_promises
        ahead = 0.0 if promises.num == 0 else account.departures.gap(at) or 0.0
        if not promises.allows(at, bound - account.num_waiting, 1.0, ahead, request.likeness):
            return _QUEUE
    return None if request.tier_queue.has_place(at, request.likeness) else _FULL


def hold(request: Request) -> None:
    """It is taken, and counts against its tenant's limits while it is open."""
    request.held = True
    request.account.num_open += 1


def withdraw(request: Request) -> None:
    """It was not taken after all, whatever came between."""
    if request.held:
        request.held = False
        request.account.num_open -= 1
        give_back(request.account, request)


def give_back(account: Account, request: Request) -> None:
    """The request was not served after all: nothing of it counts against the rates."""
    if account.requests is not None:
        account.requests.take(-1.0)
    settle_tokens(account, request, 0)


def settle_tokens(account: Account, request: Request, actual: int) -> None:
    """Replace the estimate by what was really used."""
    if account.tokens is not None and request.token_estimate:
        account.tokens.take(float(actual - request.token_estimate))
    request.token_estimate = 0


def retry_after(account: Account, request: Request, reason: Reason, at: float) -> float:
    """Seconds after which a request refused by a limit or a full queue should come back; 0.0: not known."""
    if reason is _RATE and account.requests is not None:
        return account.requests.retry_after(1.0, at, request.likeness)
    if reason is _TOKENS and account.tokens is not None:
        return account.tokens.retry_after(request.token_estimate, at, request.likeness)
    if reason is _CONCURRENCY and account.open_time > 0.0:
        limit = account.held_against()
        return account.slots.promise(at, account.num_open, limit, account.open_time, request.likeness)
    if reason is _QUEUE:
        usual = account.departures.gap(at)
        return 0.0 if usual is None else account.queue_promises.promise(at, usual, usual, request.likeness)
    if reason is _FULL:
        return request.tier_queue.retry_after(at, request.likeness)
    return 0.0
