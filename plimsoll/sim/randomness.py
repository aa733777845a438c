"""Random numbers that depend on what they are for, never on the order in which they are drawn.

Each stream is keyed by (seed, purpose, index …): tenant A's arrivals are the same whether or not tenant B takes part,
and block 7 of them is the same whichever process draws it. That is what makes runs comparable pair by pair.
"""

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.random import Generator


def stream(seed: int, purpose: str, *index: int | str) -> "Generator":
    """A generator of its own for that purpose and index (a tenant's name, a block number …): Philox, counter-based."""
    name = "/".join([str(seed), purpose, *map(str, index)])
    key = np.frombuffer(blake2b(name.encode(), digest_size=16).digest(), dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))
