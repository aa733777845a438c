"""The official SDK, unmodified, through the gateway onto real llama.cpp."""

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from plimsoll.slo.outcome import Outcome, Reason
from tests.real.parts import MODEL, Gateway
from tests.real.rows import row_of

pytestmark = pytest.mark.real
HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello there, how deep is the water"}]
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {"name": "depth", "parameters": {"type": "object", "properties": {"port": {"type": "string"}}}},
}


@pytest.fixture
def client(served: Gateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{served.url}/v1", api_key="sk-test-harbor", max_retries=0) as sdk:
        yield sdk


@pytest.fixture
def engine(llamacpp: list[str]) -> Iterator[OpenAI]:
    """The engine itself, to compare with."""
    with OpenAI(base_url=f"{llamacpp[0]}/v1", api_key="none", max_retries=0) as sdk:
        yield sdk


def named(name: str) -> dict[str, str]:
    return {"X-Request-Id": name}


def without_names(document: dict[str, Any]) -> dict[str, Any]:
    """An answer without what differs each time."""
    varying = {"id", "created", "timings", "system_fingerprint"}
    return {key: value for key, value in document.items() if key not in varying}


def test_models_are_listed(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]


def test_a_stream(client: OpenAI, served: Gateway) -> None:
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=HELLO,
            stream=True,
            max_tokens=12,
            stream_options={"include_usage": True},
            extra_headers=named("sdk-stream"),
        )
    )
    usage = chunks[-1].usage
    assert usage is not None
    row = row_of(served, "sdk-stream")
    assert (row.outcome, row.reason, row.tenant) == (Outcome.COMPLETED, Reason.DONE, "harbor")
    assert (row.prompt_tokens, row.output_tokens) == (usage.prompt_tokens, usage.completion_tokens)
    assert row.ttft is not None
    assert row.e2e is not None
    assert 0 < row.ttft <= row.e2e


def test_usage_is_hidden_from_those_who_did_not_ask(client: OpenAI, engine: OpenAI, served: Gateway) -> None:
    def texts(sdk: OpenAI, **more: Any) -> tuple[str, list[bool]]:
        chunks = list(
            sdk.chat.completions.create(model=MODEL, messages=HELLO, stream=True, max_tokens=9, temperature=0, **more)
        )
        parts = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
        return "".join(parts), [chunk.usage is not None for chunk in chunks]

    assert texts(client, extra_headers=named("sdk-hidden")) == texts(engine)
    assert row_of(served, "sdk-hidden").output_tokens == 9


def test_whole_answers_are_the_engine_s_own(client: OpenAI, engine: OpenAI) -> None:
    options: dict[str, Any] = {"model": MODEL, "messages": HELLO, "max_tokens": 8, "temperature": 0}
    mine = client.chat.completions.create(**options).model_dump()
    assert without_names(mine) == without_names(engine.chat.completions.create(**options).model_dump())


@pytest.mark.parametrize(
    "more", [{"tools": [WEATHER]}, {"n": 3}, {"tools": [WEATHER], "stream": True}, {"n": 2, "stream": True}], ids=str
)
def test_tools_and_several_choices_end_as_at_the_engine(client: OpenAI, engine: OpenAI, more: dict[str, Any]) -> None:
    def outcome(sdk: OpenAI) -> object:
        try:
            answer: Any = sdk.chat.completions.create(
                model=MODEL, messages=HELLO, max_tokens=6, temperature=0, seed=1, **more
            )
            if more.get("stream"):
                return sorted(choice.index for chunk in answer for choice in chunk.choices)
            return without_names(answer.model_dump())
        except openai.APIStatusError as error:
            return error.status_code, error.body

    assert outcome(client) == outcome(engine)


def test_completions_by_token_ids(client: OpenAI, served: Gateway) -> None:
    answer = client.completions.create(
        model=MODEL, prompt=list(range(1000, 1100)), max_tokens=5, extra_headers=named("sdk-ids")
    )
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (100, 5)
    row = row_of(served, "sdk-ids")
    assert (row.prompt_tokens, row.output_tokens, row.ttft) == (100, 5, None)


def test_a_client_that_closes_its_stream(client: OpenAI, served: Gateway) -> None:
    with client.chat.completions.create(
        model=MODEL, messages=HELLO, stream=True, max_tokens=2000, extra_headers=named("sdk-close")
    ) as stream:
        for _ in range(5):
            next(iter(stream))
    row = row_of(served, "sdk-close")
    assert (row.outcome, row.reason) == (Outcome.ABORTED, Reason.CLIENT_LEFT)
    assert 0 < row.output_tokens < 2000


def test_a_client_that_runs_out_of_patience(client: OpenAI, served: Gateway) -> None:
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.3).chat.completions.create(
            model=MODEL, messages=HELLO, max_tokens=2000, extra_headers=named("sdk-timeout")
        )
    assert row_of(served, "sdk-timeout").outcome is Outcome.ABORTED


def test_errors_are_the_sdk_s_own_classes(client: OpenAI, served: Gateway) -> None:
    with pytest.raises(openai.NotFoundError, match="known: tiny") as unknown:
        client.chat.completions.create(model="nonesuch", messages=HELLO)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.AuthenticationError) as key:
        client.with_options(api_key="sk-wrong").models.list()
    assert key.value.code == "invalid_api_key"
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model=MODEL, prompt=[1000] * 3000, max_tokens=5)
    assert long.value.code == "context_length_exceeded"
    assert "3000" in str(long.value)
    assert "2560" in str(long.value)


def test_many_at_once_async(served: Gateway) -> None:
    async def one(sdk: AsyncOpenAI, number: int) -> int:
        stream = await sdk.chat.completions.create(
            model=MODEL,
            messages=HELLO,
            stream=True,
            max_tokens=10 + number % 5,
            extra_headers=named(f"sdk-async-{number}"),
        )
        return sum([1 async for chunk in stream if chunk.choices and chunk.choices[0].delta.content])

    async def main() -> list[int]:
        async with AsyncOpenAI(base_url=f"{served.url}/v1", api_key="sk-test-compass", max_retries=0) as sdk:
            return await asyncio.gather(*(one(sdk, number) for number in range(24)))

    counts = asyncio.run(main())
    for number, count in enumerate(counts):
        row = row_of(served, f"sdk-async-{number}")
        assert row.outcome is Outcome.COMPLETED
        assert count <= row.output_tokens == 10 + number % 5
