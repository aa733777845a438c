"""How long a request was under way before it reached us, and who vouches for that (policy `service.upstream_time`).

| policy | who is believed |
|---|---|
| `header` | `X-Plimsoll-Upstream-Ms` or its like in baggage, up to the time since `X-Request-Start`; or this alone |
| `signed` | the same figure, signed by who holds a secret of the policy: `X-Plimsoll-Upstream-Signature: t=…,v1=…` |
| `measured` | a gateway of ours that the request passed before: `X-Plimsoll-Hop: t=…,v1=…`, bound to its trace |

Signatures are HMAC-SHA256 over lines of text, compared in constant time. Both are good for `service.upstream_window`
from their instant `t`; an upstream signature is good for one request, a hop for all requests of its trace. Never more
is believed than has passed since `X-Request-Start`, where it is there. Under `header` a figure that nothing bounds is
kept and charged to nobody; under `signed` and `measured` one that is not vouched for is as if it were not there.
Telemetry that is wrong must not cost an answer.
"""

import hmac
import logging
import os
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Final

from plimsoll.policy.policy import Service, UpstreamTrust

UPSTREAM: Final = b"x-plimsoll-upstream-ms"  # spent before the request was sent to us
SIGNATURE: Final = b"x-plimsoll-upstream-signature"
HOP: Final = b"x-plimsoll-hop"
START: Final = b"x-request-start"  # when the first proxy took it: epoch s, ms or us, with or without "t="
OLDEST_START: Final = 86_400.0  # s; an X-Request-Start further back is no start of this request
FORESEEN: Final = 5.0  # s that the clocks of machines may differ by
MOST_SEEN: Final = 100_000  # signatures remembered at once; beyond that the oldest could be used again
SHORTEST: Final = 16  # bytes of a secret
_SIGNED: Final = re.compile(rb"t=([0-9]{1,12}(?:\.[0-9]{1,9})?),v1=([0-9a-f]{64})")
_log = logging.getLogger("plimsoll.gateway")

Reported = tuple[float | None, UpstreamTrust]
_NOTHING: Final[Reported] = (None, UpstreamTrust.NONE)


def sign_upstream(secret: bytes, at: bytes, request_id: bytes, cause: bytes, ms: bytes) -> bytes:
    """The value of `X-Plimsoll-Upstream-Signature`; all but the secret are the bytes of the headers, `at` epoch s."""
    return b"t=%b,v1=%b" % (at, _mac(secret, b"plimsoll-upstream-1", at, request_id, cause, ms))


def sign_hop(secret: bytes, at: bytes, trace_id: bytes) -> bytes:
    """The value of `X-Plimsoll-Hop`: a gateway of ours took a request of that trace at that instant."""
    return b"t=%b,v1=%b" % (at, _mac(secret, b"plimsoll-hop-1", at, trace_id))


class Vouching:
    """What one policy believes."""

    def __init__(
        self, service: Service, secrets: Sequence[bytes] | None = None, seen: dict[bytes, float] | None = None
    ) -> None:
        """`secrets`: those of the policy, read; None: read them now. `seen`: what earlier policies have believed."""
        self.trust = service.upstream_time
        self.secrets = read_secrets(service.upstream_secrets) if secrets is None else list(secrets)
        self._window = service.upstream_window
        self._seen: dict[bytes, float] = {} if seen is None else seen
        """Signature → until when it must not come again, oldest first."""
        if self.trust in (UpstreamTrust.SIGNED, UpstreamTrust.MEASURED) and not self.secrets:
            _log.error("no secret of service.upstream_secrets can be read: upstream times will be charged to nobody")

    def upstream(
        self, fields: Mapping[bytes, bytes], arrived_at: float, reported: float | None, cause: bytes, trace_id: str
    ) -> Reported:
        """Seconds before us, and who vouches for them. `reported` is what the client said, in s; None: nothing."""
        trust = self.trust
        if trust is UpstreamTrust.NONE:
            return _NOTHING
        elapsed = _since_start(fields, arrived_at)
        if trust is UpstreamTrust.HEADER:
            believed = elapsed if reported is None else None if elapsed is None else reported
        elif trust is UpstreamTrust.SIGNED:
            believed = reported if reported is not None and self._is_signed(fields, arrived_at, cause) else None
        else:
            believed = self._measured(fields, arrived_at, trace_id)
        if believed is None:  # where somebody else vouches, what the client says changes nothing at all
            return (reported, UpstreamTrust.NONE) if trust is UpstreamTrust.HEADER else _NOTHING
        return believed if elapsed is None else min(believed, elapsed), trust

    def _is_signed(self, fields: Mapping[bytes, bytes], arrived_at: float, cause: bytes) -> bool:
        parsed = self._in_time(fields.get(SIGNATURE), arrived_at)
        if parsed is None or UPSTREAM not in fields:  # what baggage says is not what was signed
            return False
        at, value = parsed
        signed = (fields.get(b"x-request-id", b""), cause, fields[UPSTREAM])
        if not any(hmac.compare_digest(value, sign_upstream(secret, at, *signed)) for secret in self.secrets):
            return False
        return self._is_new(value, arrived_at)

    def _measured(self, fields: Mapping[bytes, bytes], arrived_at: float, trace_id: str) -> float | None:
        parsed = self._in_time(fields.get(HOP), arrived_at)
        if parsed is None:
            return None
        at, value = parsed
        if not any(hmac.compare_digest(value, sign_hop(secret, at, trace_id.encode())) for secret in self.secrets):
            return None
        return max(0.0, arrived_at - float(at))

    def _in_time(self, value: bytes | None, arrived_at: float) -> tuple[bytes, bytes] | None:
        """Instant as sent, and the whole value; None where it is missing, malformed, too old or from the future."""
        parsed = _SIGNED.fullmatch(value) if value else None
        if value is None or parsed is None or not -FORESEEN <= arrived_at - float(parsed[1]) <= self._window:
            return None
        return parsed[1], value

    def _is_new(self, value: bytes, now: float) -> bool:
        seen = self._seen
        while seen and (len(seen) >= MOST_SEEN or seen[next(iter(seen))] < now):
            del seen[next(iter(seen))]
        if value in seen:
            return False
        seen[value] = now + self._window + FORESEEN
        return True


def read_secrets(names: Sequence[str]) -> list[bytes]:
    """The secrets of those names: files where there is a slash in it, else environment variables. Faults are logged."""
    found = []
    for name in names:
        try:
            secret = (Path(name).read_bytes() if "/" in name else os.environ[name].encode()).strip()
        except (OSError, KeyError) as error:
            _log.error("service.upstream_secrets: %s cannot be read: %s", name, error)
            continue
        if len(secret) < SHORTEST:
            _log.error("service.upstream_secrets: %s holds fewer than %d bytes and is not used", name, SHORTEST)
        else:
            found.append(secret)
    return found


def request_start(value: bytes) -> float | None:
    """`X-Request-Start` in s: nginx sends `t=1700000000.123`, Heroku ms, Apache `t=` and us. None: not readable."""
    try:
        number = float(value.strip().removeprefix(b"t="))
    except ValueError:
        return None
    if not isfinite(number) or number <= 0:
        return None
    for scale in (1.0, 1e3, 1e6, 1e9):  # an instant of our age has 10 digits of seconds
        if number / scale < 1e11:
            return number / scale
    return None


def _since_start(fields: Mapping[bytes, bytes], arrived_at: float) -> float | None:
    started_at = request_start(fields.get(START, b""))
    if started_at is None or not 0 <= arrived_at - started_at <= OLDEST_START:
        return None
    return arrived_at - started_at


def _mac(secret: bytes, *lines: bytes) -> bytes:
    return hmac.new(secret, b"\n".join(lines), sha256).hexdigest().encode()
