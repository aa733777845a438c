"""Token counts out of an answer: the `usage` object of every dialect, found by its bytes.

A key between quotes that is followed by a colon cannot stand inside a JSON string (its quotes would be escaped), so a
byte search finds the true object and nothing that a model or a client wrote.
"""

import re
from typing import Final

import msgspec

from plimsoll.gateway.counts import Counts
from plimsoll.gateway.hands import Usage

USAGE: Final = re.compile(rb'"usage"\s*:\s*(?=\{)')
DRAFTED: Final = re.compile(rb'"(?:num_draft_tokens|draft_n)"\s*:\s*(\d{1,9})(?![\d.eE])')
ACCEPTED: Final = re.compile(rb'"(?:num_accepted_draft_tokens|draft_n_accepted)"\s*:\s*(\d{1,9})(?![\d.eE])')
KEPT_HEAD: Final = 64 * 1024  # bytes kept from the start of a long body: llama.cpp's embeddings tell usage first
KEPT_TAIL: Final = 64 * 1024  # and from its end, where all others tell it


_decoder: Final = msgspec.json.Decoder(Counts)


def last_usage(data: bytes) -> bytes:
    """The bytes of the last `usage` object in `data`; b"" where there is none, or its end is missing."""
    start = data.rfind(b'"usage":{') + 8  # as nearly every engine spells it
    if start < 8:
        start = 0
        for match in USAGE.finditer(data):
            start = match.end()
        if not start:
            return b""
    end = data.find(b"}", start) + 1
    if end and data.find(b"{", start + 1, end) < 0:
        return data[start:end]
    depth = 0
    for brace in re.finditer(rb"[{}]", data[start : start + 4096]):
        depth += 1 if brace.group() == b"{" else -1
        if depth == 0:
            return data[start : start + brace.end()]
    return b""


def read_usage(*objects: bytes) -> Usage:
    """Counts out of usage objects in the order in which they came; later ones override what earlier ones said."""
    usage = Usage()
    for raw in objects:
        if raw:
            _merge(usage, raw)
    return usage


def read_drafts(usage: Usage, data: bytes) -> None:
    """Tokens drafted and accepted, as vLLM (`metrics.speculative_decoding`) and llama.cpp (`timings`) tell them."""
    drafted, accepted = DRAFTED.search(data), ACCEPTED.search(data)
    if drafted is not None and accepted is not None:
        usage.drafts = (int(drafted[1]), int(accepted[1]))


def _merge(usage: Usage, raw: bytes) -> None:
    try:
        counts = _decoder.decode(raw)
    except msgspec.DecodeError:
        return  # not the shape of any dialect, or beyond all reason: unknown, which is not zero
    details = counts.prompt_tokens_details or counts.input_tokens_details
    cached = details.cached_tokens if details else counts.cache_read_input_tokens
    prompt = counts.prompt_tokens if counts.prompt_tokens is not None else _anthropic_prompt(counts)
    output = counts.completion_tokens if counts.completion_tokens is not None else counts.output_tokens
    usage.prompt_tokens = prompt if prompt is not None else usage.prompt_tokens
    usage.output_tokens = output if output is not None else usage.output_tokens
    usage.cached_tokens = cached if cached is not None else usage.cached_tokens
    if (told := counts.completion_tokens_details) is not None and told.accepted_prediction_tokens is not None:
        accepted = told.accepted_prediction_tokens
        usage.drafts = (accepted + (told.rejected_prediction_tokens or 0), accepted)


def _anthropic_prompt(counts: Counts) -> int | None:
    """Anthropic counts cached input apart; OpenAI's responses include it and tell neither of the two fields."""
    if counts.input_tokens is None:
        return None
    return counts.input_tokens + (counts.cache_read_input_tokens or 0) + (counts.cache_creation_input_tokens or 0)


class BodyEnds:
    """Start and end of a body that is not a stream, bounded, to read its usage from when it is over."""

    __slots__ = ("_head", "_head_size", "_tail", "_tail_size")

    def __init__(self) -> None:
        self._head: list[bytes] = []
        self._head_size = 0
        self._tail: list[bytes] = []
        self._tail_size = 0

    def add(self, part: bytes) -> None:
        """Keep of the next bytes what may be needed; no copy is made."""
        if self._head_size < KEPT_HEAD:
            self._head.append(part)
            self._head_size += len(part)
            return
        self._tail.append(part)
        self._tail_size += len(part)
        while self._tail_size - len(self._tail[0]) >= KEPT_TAIL:
            self._tail_size -= len(self._tail.pop(0))

    def usage(self) -> Usage:
        """What the body said."""
        parts = self._head + self._tail
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        usage = read_usage(last_usage(body))
        if body.find(b"draft_") >= 0:
            read_drafts(usage, body)
        return usage
