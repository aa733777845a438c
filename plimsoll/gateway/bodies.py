"""The request bodies that we read, as types: only the members that decide something. The rest is passed over.

Messages come in two kinds: read, and (`Large…`) only stepped over, where making text of megabytes would hold up others.
"""

from typing import Final, Generic, TypeVar

from msgspec import UNSET, Raw, Struct, UnsetType

NO_RAW: Final = Raw(b"")
Number = int | float | None


class StreamOptions(Struct):
    """Of a stream: does the client want the usage event?"""

    include_usage: bool | None = None


class Part(Struct):
    """One part of a content: text, or media that bytes do not measure."""

    image_url: Raw = NO_RAW
    input_audio: Raw = NO_RAW
    audio_url: Raw = NO_RAW
    video_url: Raw = NO_RAW
    file: Raw = NO_RAW
    file_data: Raw = NO_RAW
    source: Raw = NO_RAW  # Anthropic's images and documents
    content: "str | list[Part] | None" = None  # Anthropic's tool results

    def media(self) -> Raw:
        """The member that holds the media; empty where it is text."""
        for raw in (self.image_url, self.source, self.input_audio, self.file, self.file_data, self.video_url):
            if raw is not NO_RAW:
                return raw
        return self.audio_url


class Message(Struct):
    """One message of a chat."""

    role: str
    content: str | list[Part] | None = None


class LargeMessage(Struct):
    """One message of a large chat; its content is looked at only where it is a list of parts."""

    role: str
    content: Raw = NO_RAW


class Item(Struct):
    """One item of a Responses input: a message, or a call or its result, which have no role."""

    content: str | list[Part] | None = None


class LargeItem(Struct):
    """One item of a large Responses input."""

    content: Raw = NO_RAW


M = TypeVar("M")


class ChatBody(Struct, Generic[M]):
    """POST /v1/chat/completions."""

    model: str
    messages: list[M]
    stream: bool | None = None
    stream_options: StreamOptions | UnsetType | None = UNSET
    max_tokens: Number = None
    max_completion_tokens: Number = None
    n: Number = None


class CompletionsBody(Struct):
    """POST /v1/completions."""

    model: str
    prompt: Raw = NO_RAW
    stream: bool | None = None
    stream_options: StreamOptions | UnsetType | None = UNSET
    max_tokens: Number = None
    n: Number = None
    best_of: Number = None


class EmbeddingsBody(Struct):
    """POST /v1/embeddings."""

    model: str
    input: Raw = NO_RAW


class ResponsesBody(Struct, Generic[M]):
    """POST /v1/responses."""

    model: str
    input: str | list[M] | None = None
    stream: bool | None = None
    max_output_tokens: Number = None


class MessagesBody(Struct, Generic[M]):
    """POST /v1/messages (Anthropic)."""

    model: str
    messages: list[M]
    stream: bool | None = None
    max_tokens: Number = None


class OtherBody(Struct):
    """Whatever else is sent under /v1: perhaps it names a model."""

    model: str | None = None
    stream: bool | None = None
