"""Composes the step times of the shipped MoE profile from kernel tables: `python -m benchmarks.moe_profile`.

Qwen3-30B-A3B on two RTX PRO 6000 as DP2 + EP2 under vLLM 0.19: each rank computes the attention of its own sequences,
experts see the tokens of both. Needs PLIMSOLL_DATA; prints `tables.decode` and `mixed` of
plimsoll/engine/profiles/rtxpro6000-qwen30b-moe.yaml.
"""

import csv
import gzip
import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from plimsoll.engine.grids import Line

Function = Callable[[float], float]
LAYERS, EXPERTS, CHOICES, HIDDEN, RANKS = 48, 128, 8, 2048, 2
LATENCY, LINK = 20e-6, 32e9  # s a collective (the data's cluster file); B/s, read off the recorded run
OTHERS = 64  # sequences that the other rank decodes beside a mixed step
NUM_SEQS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128)
CONTEXT = (0, 2000, 8000, 30000, 100000, 300000)
SHAPE = {"layernorm": 2, "qkv_proj": 1, "qk_norm": 1, "rotary_emb": 1, "o_proj": 1}  # kernels of a layer
# Time under power-law routing (exponent 1.01) ÷ balanced, EP2, H100, vLLM 0.24.0: ai-dynamo/aiconfigurator @ 095f58a5.
ROUTING = {32: 0.877, 48: 0.899, 64: 0.905, 80: 0.953, 96: 0.954, 128: 0.981, 160: 0.961, 192: 0.97, 256: 0.977,
           320: 0.998, 384: 1.037, 512: 1.014, 768: 1.04, 1024: 1.043, 1536: 1.093, 2048: 1.167}  # fmt: skip


def line(points: dict[float, float]) -> Function:
    """Linear between points, and straight on beyond the last one."""
    xs = sorted(points)
    if len(xs) == 1:
        return lambda _: points[xs[0]]
    return Line(tuple(xs), tuple(points[x] for x in xs)).at


def read(name: str, *keys: str) -> dict[tuple[str, ...], float]:
    """Times in s of a kernel table, by its key columns."""
    stem = "RTXPRO6000_Qwen_Qwen3-30B-A3B-Instruct-2507_bf16_tp1"
    path = Path(os.environ["PLIMSOLL_DATA"]) / "llmservingsim" / "profile" / f"{stem}_{name}.csv.gz"
    with gzip.open(path, "rt") as file:
        return {tuple(row[key] for key in keys): float(row["time_us"]) * 1e-6 for row in csv.DictReader(file)}


def curves(name: str, *keys: str) -> dict[tuple[str, ...], Function]:
    """One line over the last key for each value of those before it."""
    found: dict[tuple[str, ...], dict[float, float]] = defaultdict(dict)
    for key, time in read(name, *keys).items():
        found[key[:-1]][float(key[-1])] = time
    return {key: line(points) for key, points in found.items()}


class Kernels:
    """The tables, as functions."""

    def __init__(self) -> None:
        self.dense = curves("dense", "layer", "tokens")
        self.ends = curves("per_sequence", "layer", "sequences")  # lm_head and sampler
        self.moe = {int(key[0]): curve for key, curve in curves("moe", "tokens", "activated_experts").items()}
        self.attention = read("attention", "prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
        by_batch = curves("attention", "prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
        self.decode = {int(key[2]): curve for key, curve in by_batch.items() if key[:2] == ("0", "0")}
        self.routing = line({float(tokens): ratio for tokens, ratio in ROUTING.items()})

    def layers(self, tokens: int, attention: float, of_all: int, active: float) -> float:
        """All layers of one rank: its own tokens, and experts for those of all ranks."""
        own = sum(num * self.dense[name,](tokens) for name, num in SHAPE.items())
        travel = 2 * (LATENCY + tokens * HIDDEN * 2 / LINK)
        return LAYERS * (own + attention + self.experts(of_all, active) + travel)

    def experts(self, tokens: int, active: float) -> float:
        """An expert layer of one rank, of whose experts `active` get a token."""
        curve = line({num: self.moe[num](active / RANKS) for num in self.moe if num >= 8})
        skew = self.routing(min(max(tokens, 32), 2048)) if tokens >= 32 else 1.0
        return curve(tokens) * skew

    def around(self, tokens: int, num_seqs: int) -> float:
        """What comes before and after the layers."""
        before = self.dense["embedding",](tokens) + self.dense["final_layernorm",](tokens)
        return before + sum(curve(num_seqs) for curve in self.ends.values())

    def decode_step(self, num_seqs: int, context: float) -> float:
        """vLLM pads a batch to the next captured size, both ranks to the larger one; padding chooses experts too."""
        padded = next(size for size in (1, 2, 4, *range(8, 257, 8)) if size >= num_seqs)
        tokens = RANKS * padded
        active = EXPERTS * (1 - (1 - CHOICES / EXPERTS) ** tokens)
        mean = max(16.0, context / num_seqs)
        attention = line({num: curve(mean) for num, curve in self.decode.items()})(num_seqs)
        return self.layers(padded, attention, tokens, active) + self.around(padded, padded)

    def mixed_rows(self) -> tuple[list[list[float]], list[float]]:
        """The symbols of `engine/steptime.py` for every mixed step of the attention table, and its time."""
        rows, times = [], []
        for key, attention in self.attention.items():
            chunk, history, num_seqs, kv = map(int, key)
            if chunk < 16 or num_seqs < 1 or history > 4096 or kv > 4096 or num_seqs * kv > 300_000:
                continue
            tokens = chunk + num_seqs
            work = chunk * (history + chunk / 2)
            rows.append([1.0, tokens, num_seqs, num_seqs * kv, work, history])
            times.append(self.layers(tokens, attention, tokens + OTHERS, EXPERTS) + self.around(tokens, num_seqs + 1))
        return rows, times


def main() -> None:
    kernels = Kernels()
    rows, times = map(np.array, kernels.mixed_rows())
    found, *_ = np.linalg.lstsq(rows / times[:, None], np.ones(len(times)), rcond=None)
    error = np.abs(rows @ found / times - 1).mean()
    names = ("a", "e", "f", "g", "pw", "kp")
    print(f"# mixed: mean error {error:.1%} over {len(times)} steps")
    print("mixed: {" + ", ".join(f"{name}: {value:.5e}" for name, value in zip(names, found, strict=True)) + "}")
    print(f"num_seqs: {list(NUM_SEQS)}\ncontext: {list(CONTEXT)}\nseconds:")
    for num_seqs in NUM_SEQS:
        print("  - [" + ", ".join(f"{kernels.decode_step(num_seqs, context):.5f}" for context in CONTEXT) + "]")


if __name__ == "__main__":
    main()
