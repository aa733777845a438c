"""Anything that speaks OpenAI's API and tells no more: it is there or it is not."""

from plimsoll.gateway.dialects.reading import Dialect, Reading


def read(page: bytes) -> Reading:
    """`/v1/models` says nothing of load."""
    return Reading()


DIALECT = Dialect("/v1/models", read)
