"""What engines hold of one prompt, by their KV events and their own tokenizer: told with its arrival."""

from msgspec import Struct


class Matched(Struct, frozen=True, gc=False):
    """Replicas that are not named are known by what was sent there."""

    asked_at: float  # when its tokens were asked for: its time in the queue counts from there
    replicas: tuple[str, ...] = ()
    tokens: tuple[int, ...] = ()  # leading prompt tokens that each of them holds …
    whole: tuple[bool, ...] = ()  # … or, where False, at least: not all that it holds was told to us
