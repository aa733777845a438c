"""Answers under way: a stream writes each token as it comes, a whole answer waits for its last."""

from secrets import token_hex
from time import time
from typing import Any

from plimsoll.emulator import shapes
from plimsoll.emulator.asking import Ask, Prompt
from plimsoll.emulator.engine import EmulatedEngine
from plimsoll.emulator.http import Connection
from plimsoll.emulator.words import text, word
from plimsoll.sim.job import Job


class Answer:
    """One request: its jobs, and what to do when all have ended."""

    def __init__(self, engine: EmulatedEngine, connection: Connection, model: str, ask: Ask) -> None:
        self.engine = engine
        self.connection = connection
        self.model = model
        self.ask = ask
        self.jobs: list[Job] = []
        self.num_open = 0

    def start(self, choices: "list[tuple[Prompt, Any]]", output_tokens: int, hash_tokens: int) -> None:
        """Submit one job a choice; all end if the client leaves."""
        self.num_open = len(choices)
        self.connection.on_lost = self.cancel
        for prompt, sink in choices:
            job = Job(self.engine.next_id(), prompt.tokens, output_tokens, prompt.hashes, hash_tokens)
            job.priority = self.ask.priority
            self.jobs.append(job)
            self.engine.submit(job, sink, prompt.ids)

    def cancel(self) -> None:
        """The client left."""
        for job in self.jobs:
            self.engine.cancel(job.id)

    def ended(self) -> bool:
        """One more choice has ended; whether it was the last."""
        self.num_open -= 1
        return self.num_open == 0

    def usage(self) -> dict[str, Any]:
        """Token counts of the request: each prompt once, as vLLM counts n choices of it."""
        firsts = self.jobs[:: self.ask.num_choices]
        prompt_tokens, cached = sum(job.prompt_tokens for job in firsts), sum(job.cached_tokens for job in firsts)
        return shapes.usage(prompt_tokens, sum(job.output_tokens for job in self.jobs), cached)


class Choice:
    """One choice of a streamed answer: a sink that writes each token as an event."""

    def __init__(self, stream: "Stream", index: int, seed: int) -> None:
        self._stream = stream
        self._connection = stream.answer.connection
        self._index = index
        self._seed = seed
        self._num = 0
        self._last = stream.answer.ask.output_tokens
        before, self._after = stream.shape.around(index)
        self._before = stream.head + before

    def token(self) -> None:
        """Write it; the last one says why it is the last."""
        if not self._num:
            self._stream.open(self._index)
        text = word(self._seed, self._num).encode()
        self._num += 1
        after = self._after
        if self._num == self._last:
            reason = b'"finish_reason":"%b"' % self._stream.answer.ask.finish_reason.encode()
            after = after.replace(b'"finish_reason":null', reason)
        self._connection.send(self._before + text + after)

    def finished(self, job: Job) -> None:
        """After the last choice come usage and [DONE]."""
        self._stream.choice_ended()


class Stream:
    """A streamed answer."""

    def __init__(self, answer: Answer, shape: shapes.Shape) -> None:
        self.answer = answer
        self.shape = shape
        self._began = False
        identity = {"id": shape.prefix + token_hex(8), "object": shape.object_name(True), "created": int(time())}
        self.head = shapes.encode({**identity, "model": answer.model})[:-1] + b","

    def open(self, index: int) -> None:
        """A choice's first token is there: headers go out, and its role where the shape has one."""
        if not self._began:
            self._began = True
            self.answer.connection.stream()
        opening = self.shape.opening(self.head, index)
        if opening:
            self.answer.connection.send(opening)

    def choice_ended(self) -> None:
        """One choice has ended."""
        if not self.answer.ended():
            return
        connection = self.answer.connection
        if self.answer.ask.include_usage:
            connection.send(self.head + b'"choices":[],"usage":' + shapes.encode(self.answer.usage()) + b"}")
        connection.send(b"[DONE]")
        connection.end()


class Whole:
    """An answer that is sent when all its choices have ended; the sink of each of its jobs."""

    def __init__(self, answer: Answer, shape: shapes.Shape, seeds: list[int]) -> None:
        self._answer = answer
        self._shape = shape
        self._seeds = seeds

    def token(self) -> None:
        """Not told before the end."""

    def finished(self, job: Job) -> None:
        """Send the answer after the last choice."""
        if not self._answer.ended():
            return
        ask, shape = self._answer.ask, self._shape
        choices = [
            shape.choice(index, text(seed, ask.output_tokens), ask.finish_reason)
            for index, seed in enumerate(self._seeds)
        ]
        identity = {"id": shape.prefix + token_hex(8), "object": shape.object_name(False), "created": int(time())}
        rest = {"model": self._answer.model, "choices": choices, "usage": self._answer.usage()}
        self._answer.connection.respond(200, shapes.encode({**identity, **rest}))


class Embedded:
    """An embeddings request: prompts only."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def token(self) -> None:
        """There are none."""

    def finished(self, job: Job) -> None:
        """Send the vectors after the last prompt."""
        if self._answer.ended():
            answer = self._answer
            digests = [prompt.digest for prompt in answer.ask.prompts]
            base64 = answer.ask.encoding == "base64"
            answer.connection.respond(200, shapes.embeddings(answer.model, answer.jobs, digests, base64))
