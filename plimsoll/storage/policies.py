"""A policy as the log keeps it: its values by name, so that what was promised then can be judged by it for ever.

Values, not the YAML text: a later Plimsoll may read a document otherwise, but a number stays that number. Key digests
are left out, the books have no use for them.
"""

from fractions import Fraction
from typing import Any, Final

import msgspec

from plimsoll.policy.policy import Policy


def _encode_fraction(value: Any) -> Any:
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    raise NotImplementedError(f"a policy holds a {type(value).__name__}")


def _decode_fraction(kind: type, value: Any) -> Any:
    if kind is Fraction:
        return Fraction(value)
    raise NotImplementedError(f"a policy holds a {kind.__name__}")


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_encode_fraction)
_decoder: Final = msgspec.msgpack.Decoder(Policy, dec_hook=_decode_fraction)


def encode_policy(policy: Policy) -> bytes:
    """The policy without its keys, as bytes."""
    tenants = tuple(msgspec.structs.replace(tenant, keys=()) for tenant in policy.tenants)
    return _encoder.encode(msgspec.structs.replace(policy, tenants=tenants))


def decode_policy(data: bytes) -> Policy:
    """The policy in `data`, of this schema or an older one (what was not known then has its default)."""
    return _decoder.decode(data)
