"""The usage objects of every dialect, as types."""

from typing import Annotated, Final

import msgspec

LARGEST_COUNT: Final = 100_000_000  # tokens; no answer has more

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]


class Details(msgspec.Struct):
    """What a usage object says of its prompt tokens."""

    cached_tokens: Count | None = None


class OutputDetails(msgspec.Struct):
    """What a usage object says of its output tokens: those that were predicted, by OpenAI's names."""

    accepted_prediction_tokens: Count | None = None
    rejected_prediction_tokens: Count | None = None


class Counts(msgspec.Struct):
    """The union of OpenAI's chat and responses and Anthropic's messages."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: Details | None = None
    completion_tokens_details: OutputDetails | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    input_tokens_details: Details | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None


class Prefilled(msgspec.Struct):
    """What the first of two hops answers, as far as the second needs it."""

    kv_transfer_params: msgspec.Raw = msgspec.Raw(b"null")
