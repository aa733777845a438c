"""Law 3: the same inputs give the same bytes, whichever process makes them."""

import subprocess
import sys
from hashlib import sha256

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.world import as_bytes, simulated, traffic

CHILD = """
from hashlib import sha256
from tests.sim.world import as_bytes, simulated, traffic
print(sha256(as_bytes(simulated(traffic(20.0, turns=3), 11)[1])).hexdigest())
"""


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1 << 32))
def test_same_seed_same_rows(seed: int) -> None:
    first, again = simulated(traffic(6.0), seed)[1], simulated(traffic(6.0), seed)[1]
    assert as_bytes(first) == as_bytes(again)
    assert as_bytes(simulated(traffic(6.0), seed + 1)[1]) != as_bytes(first)


def test_another_process_makes_the_same_rows() -> None:
    """Hash seeds, import order and process count are no inputs."""
    here = sha256(as_bytes(simulated(traffic(20.0, turns=3), 11)[1])).hexdigest()
    child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == here
