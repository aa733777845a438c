"""Who is asking: API keys against the digests of the policy.

Only SHA-256 digests are kept, so the policy file holds no key. A key is found by its digest, which tells a guesser
nothing (who can steer a digest has broken SHA-256), and the match is confirmed in constant time.
"""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from plimsoll.policy.policy import Policy, Tenant

PREFIX: Final = "sha256:"
BEARER: Final = b"bearer "


class Keyring:
    """All keys of all tenants. Several keys a tenant let it rotate them one by one."""

    def __init__(self, policy: Policy) -> None:
        self._tenants: dict[bytes, tuple[bytes, Tenant]] = {}
        for tenant in policy.tenants:
            for key in tenant.keys:
                digest = bytes.fromhex(key.removeprefix(PREFIX))
                self._tenants[digest] = (digest, tenant)

    def tenant(self, fields: Mapping[bytes, bytes]) -> Tenant | None:
        """Whose key the request carries; None where it has none or one that nobody holds."""
        key = presented_key(fields)
        if not key:
            return None
        digest = sha256(key).digest()
        known, tenant = self._tenants.get(digest, (b"", None))
        return tenant if hmac.compare_digest(known, digest) else None


def presented_key(fields: Mapping[bytes, bytes]) -> bytes:
    """The key of `Authorization: Bearer …` (OpenAI) or `X-Api-Key` (Anthropic); b"" for none."""
    value = fields.get(b"authorization", b"")
    if value[:7].lower() == BEARER:
        return value[7:].strip()
    return fields.get(b"x-api-key", b"").strip()
