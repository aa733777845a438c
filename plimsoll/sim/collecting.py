"""Python's search for garbage in rings, which a simulation leaves none of: what a request leaves dies by its count."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = (100_000, 50, 100)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Search seldom meanwhile: at the usual pace it takes a twentieth of a simulation's time."""
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
