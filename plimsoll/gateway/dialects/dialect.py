"""The dialects by the name that the policy uses for the engine."""

from typing import Final

from plimsoll.gateway.dialects import llamacpp, openai, sglang, tgi, trtllm, vllm
from plimsoll.gateway.dialects.reading import Dialect

DIALECTS: Final[dict[str, Dialect]] = {
    "vllm": vllm.DIALECT,
    "sglang": sglang.DIALECT,
    "trtllm": trtllm.DIALECT,
    "tgi": tgi.DIALECT,
    "llamacpp": llamacpp.DIALECT,
    "openai": openai.DIALECT,
}


def of(engine: str) -> Dialect:
    """The dialect of a pool's `engine`; KeyError for one that the policy's check should have refused."""
    return DIALECTS[engine]
