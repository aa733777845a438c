"""Keys: by digest, several a tenant, in both headers; nothing else opens."""

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.gateway.auth import Keyring, presented_key
from plimsoll.policy.policy import Policy, Tenant


def digest(key: str) -> str:
    return "sha256:" + sha256(key.encode()).hexdigest()


KEYRING = Keyring(
    Policy(
        tenants=(
            Tenant("acme", "gold", keys=(digest("sk-old"), digest("sk-new"))),
            Tenant("beta", "silver", keys=(digest("sk-beta"),)),
            Tenant("shut", "silver"),
        )
    )
)


def name(fields: dict[bytes, bytes]) -> str:
    tenant = KEYRING.tenant(fields)
    return tenant.name if tenant else ""


def test_either_key_while_one_is_rotated() -> None:
    assert name({b"authorization": b"Bearer sk-old"}) == "acme"
    assert name({b"authorization": b"bearer  sk-new "}) == "acme"
    assert name({b"x-api-key": b"sk-beta"}) == "beta"


@given(st.binary(max_size=40))
def test_no_other_key_opens(key: bytes) -> None:
    for fields in ({b"authorization": b"Bearer " + key}, {b"x-api-key": key}, {b"authorization": key}):
        if presented_key(fields) not in (b"sk-old", b"sk-new", b"sk-beta"):
            assert name(fields) == ""


def test_a_digest_is_no_key() -> None:
    assert name({b"authorization": b"Bearer " + digest("sk-old").encode()}) == ""
    assert name({}) == ""
    assert name({b"authorization": b"Basic c2stb2xk"}) == ""
