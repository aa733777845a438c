"""Who holds how much of a prompt, for pools with `exact_prefixes`: its tokens, of an engine; its blocks, of all.

One small request to a replica of the pool, on a connection that is there, bounded in time. Where it is slow or fails
the request goes on as others do, by what was sent where, and that replica is left alone for a while. Nothing of a
prompt is kept: a later turn of a conversation is asked for anew, since how a text ends decides how it is cut into
tokens, and its template how it ends.
"""

import logging
import os
from collections.abc import Callable
from typing import Final

import msgspec

from plimsoll.gateway import patches
from plimsoll.gateway.carrier import Timer
from plimsoll.gateway.hands import Clock, Headers
from plimsoll.gateway.kvpool import Match, PoolCaches
from plimsoll.gateway.matching import Cancel, Found
from plimsoll.gateway.openai import Body
from plimsoll.gateway.origin import Origin, Upstreams
from plimsoll.gateway.tokenids import Tokens
from plimsoll.gateway.tokenizing import Question
from plimsoll.governor.events import Endpoint, RequestArrived
from plimsoll.governor.matched import Matched
from plimsoll.policy.policy import Policy, Pool
from plimsoll.slo.outcome import Reason

AT_ONCE: Final = 64  # questions that may be open; more would be slow anyway
REST_SLOW: Final = 1.0  # s a replica is left alone after it was too slow …
REST_FAILED: Final = 10.0  # … and after it failed
ENDPOINTS: Final = frozenset({Endpoint.CHAT, Endpoint.COMPLETIONS})
BY_REQUEST: Final = frozenset({"status 400", "status 413", "status 422"})  # it will be told the same by the engine
PASSING: Final = frozenset({Reason.CONNECTION_LOST.value, "status 429", "status 503"})
SALT: Final = b'"cache_salt"'  # vLLM's: such blocks are nobody else's, and their names are not to be had
_log = logging.getLogger("plimsoll.gateway")


class PrefixFinder:
    """Answers for the pools of a policy."""

    def __init__(self, clock: Clock, call_at: Callable[[float, Callable[[], None]], Timer]) -> None:
        self.upstreams: Upstreams | None = None  # None: nobody is asked
        self.caches: dict[str, PoolCaches] = {}  # by pool
        self.is_up: Callable[[str], bool] = lambda url: True
        self.results: dict[tuple[str, str], int] = {}  # (pool, what came of it) → how often
        self._clock = clock
        self._call_at = call_at
        self._pools: dict[str, list[Pool]] = {}  # by the names that clients ask for
        self._rested: dict[str, float] = {}  # replica → not to be asked before
        self._turn = 0
        self.num_open = 0

    def take(self, policy: Policy, caches: dict[str, PoolCaches]) -> None:
        """From now on by this policy."""
        self.caches = caches
        self._pools = {}
        for pool in policy.pools:
            if pool.exact_prefixes is not None and pool.name in caches:
                for name in (pool.model, *pool.aliases, *pool.adapters):
                    self._pools.setdefault(name, []).append(pool)

    def find(self, arrival: RequestArrived, body: Body, data: bytes, done: Callable[[Found], None]) -> Cancel | None:
        """Ask; `done` is called later, once, unless what is returned is called before. None: it is not for us."""
        pools = self._pools.get(arrival.model)
        if pools is None:
            return None
        rules = pools[0].exact_prefixes
        if rules is None or arrival.prompt_tokens < rules.prompt_from:
            return None
        why, replica = self._unfit(body, arrival, data), ""
        if not why:
            replica = self._whom_to_ask(pools)
            why = "" if replica else "busy"
        if why or self.upstreams is None:
            self.count(pools[0], why or "failed")
            return None
        self.num_open += 1
        search = _Search(self, pools, replica, arrival, done)
        search.start(self.upstreams.origin(replica), self._call_at(self._clock() + rules.within, search.too_late), data)
        return search.cancel

    def _unfit(self, body: Body, arrival: RequestArrived, data: bytes) -> str:
        prompt = body.prompt
        fits = arrival.endpoint in ENDPOINTS and prompt.num_prompts == 1 and not prompt.exact_tokens
        return "" if fits and SALT not in data else "unfit"

    def _whom_to_ask(self, pools: list[Pool]) -> str:
        """A replica that is up and not resting, in turn; "" where there is none, or too much is open."""
        if self.num_open >= AT_ONCE:
            return ""
        now = self._clock()
        up = [url for pool in pools for url in pool.replicas if self._rested.get(url, 0.0) <= now and self.is_up(url)]
        self._turn += 1
        return up[self._turn % len(up)] if up else ""

    def look(self, pools: list[Pool], arrival: RequestArrived, tokens: Tokens) -> Found:
        """Who holds how much of it."""
        at = self._clock()
        replicas, held, whole = [], [], []
        matches: list[Match] = []
        for pool in pools:
            caches = self.caches.get(pool.name)
            if caches is None:
                continue
            match = caches.match(tokens.ids, arrival.model if arrival.model in pool.adapters else "", at)
            matches.append(match)
            for replica in pool.replicas:
                if replica in caches.followers:
                    replicas.append(replica)
                    held.append(match.tokens(replica))
                    whole.append(match.whole(replica) and tokens.count == len(tokens.ids))
        self.count(pools[0], "exact" if all(whole) else "partial")
        matched = Matched(arrival.at, tuple(replicas), tuple(held), tuple(whole))
        return Found(matched, tokens.count, tuple(matches))

    def rest(self, replica: str, seconds: float, why: str) -> None:
        """Leave that replica alone; `why` is told once."""
        if why and why not in PASSING and replica not in self._rested:
            _log.warning("replica %s: a prompt's tokens cannot be had from it: %s", replica, why)
        self._rested[replica] = self._clock() + seconds

    def count(self, pool: Pool, result: str) -> None:
        """One more question came to that."""
        key = (pool.name, result)
        self.results[key] = self.results.get(key, 0) + 1


class _Search:
    """One question under way."""

    def __init__(
        self,
        finder: PrefixFinder,
        pools: list[Pool],
        replica: str,
        arrival: RequestArrived,
        done: Callable[[Found], None],
    ) -> None:
        self._finder = finder
        self._pools = pools
        self._pool = next(pool for pool in pools if replica in pool.replicas)  # the replica's own
        self._replica = replica
        self._arrival = arrival
        self._done = done
        self._question: Question | None = None  # None: it is over
        self._timer: Timer | None = None

    def start(self, origin: Origin, timer: Timer, data: bytes) -> None:
        """Ask."""
        if self._arrival.model in self._pool.aliases:
            data = patches.put(data, "model", msgspec.json.encode(self._pool.model))
        self._timer = timer
        self._question = Question(origin, _key(self._pool), data, self._answered)
        self._question.start()

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        question, self._question = self._question, None
        if question is not None:
            self._finder.num_open -= 1
            question.drop()
            if self._timer is not None:
                self._timer.cancel()

    def too_late(self) -> None:
        """It took as long as it may."""
        self.cancel()
        self._finder.rest(self._replica, REST_SLOW, "")
        self._finder.count(self._pools[0], "slow")
        self._done(Found(Matched(self._arrival.at)))

    def _answered(self, tokens: Tokens | None, fault: str) -> None:
        if self._question is None:
            return
        self.cancel()
        if tokens is not None:
            self._done(self._finder.look(self._pools, self._arrival, tokens))
            return
        if fault not in BY_REQUEST:
            self._finder.rest(self._replica, REST_SLOW if fault in PASSING else REST_FAILED, fault)
        self._finder.count(self._pools[0], "failed")
        self._done(Found(Matched(self._arrival.at)))


def _key(pool: Pool) -> Headers:
    key = os.environ.get(pool.engine_key, "") if pool.engine_key else ""
    return ((b"authorization", b"Bearer " + key.encode()),) if key else ()
