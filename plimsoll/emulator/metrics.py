"""The `/metrics` of an emulated engine, by vLLM's names."""

from plimsoll.emulator.engine import EmulatedEngine


def render(engine: EmulatedEngine, model: str) -> bytes:
    """Prometheus text, version 0.0.4."""
    report, profile = engine.report(), engine.replica.profile
    lines: list[str] = []

    def add(kind: str, name: str, text: str, value: float, **labels: str) -> None:
        suffix = "_total" if kind == "counter" else ""
        said = ",".join(
            f'{key}="{word}"' for key, word in sorted({"engine": "0", "model_name": model, **labels}.items())
        )
        header = f"# HELP {name}{suffix} {text}\n# TYPE {name}{suffix} {kind}"
        if header not in lines:
            lines.append(header)
        lines.append(f"{name}{suffix}{{{said}}} {float(value)!r}")

    add("gauge", "vllm:num_requests_running", "Requests in model execution batches.", report.running or 0)
    add("gauge", "vllm:num_requests_waiting", "Requests waiting to be processed.", report.waiting or 0)
    add("gauge", "vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", report.kv_usage or 0.0)
    add("counter", "vllm:prefix_cache_queries", "Queried prompt tokens.", report.prefix_queries or 0)
    add("counter", "vllm:prefix_cache_hits", "Prompt tokens found in the prefix cache.", report.prefix_hits or 0)
    add("counter", "vllm:num_preemptions", "Preemptions by the engine.", report.preemptions or 0)
    add("counter", "vllm:prompt_tokens", "Prefill tokens processed.", engine.prompt_tokens)
    add("counter", "vllm:generation_tokens", "Generation tokens processed.", engine.output_tokens)
    text = "Successfully processed requests."
    add("counter", "vllm:request_success", text, engine.num_finished, finished_reason="length")
    add("counter", "vllm:request_success", text, engine.num_aborted, finished_reason="abort")
    caching = str(profile.prefix_caching)
    sizes = {"block_size": str(profile.block_size), "num_gpu_blocks": str(profile.num_blocks)}
    add("gauge", "vllm:cache_config_info", "Cache configuration.", 1, enable_prefix_caching=caching, **sizes)
    return ("\n".join(lines) + "\n").encode()
