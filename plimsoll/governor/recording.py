"""Events as bytes and back, whole: a recorded history replays to the same decisions.

MessagePack by `msgspec`, each event tagged with its class name; exact ratios as "3/10".
"""

from fractions import Fraction
from typing import Final

import msgspec

from plimsoll.governor.events import Event


def encode(event: Event) -> bytes:
    """One event."""
    return _ENCODER.encode(event)


def decode(data: bytes) -> Event:
    """The event that was encoded; raises msgspec.DecodeError where it was none."""
    event: Event = _DECODER.decode(data)
    return event


def _plain(value: object) -> object:
    if isinstance(value, Fraction):
        return str(value)
    raise NotImplementedError(f"an event holds a {type(value).__name__}")


def _exact(kind: type, value: object) -> object:
    if kind is Fraction:
        return Fraction(str(value))
    raise NotImplementedError(f"an event holds a {kind.__name__}")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_plain)
_DECODER: Final = msgspec.msgpack.Decoder(Event, dec_hook=_exact)
