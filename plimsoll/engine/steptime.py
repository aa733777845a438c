"""How long one step of an engine takes, and what an unloaded engine would need for a request.

Symbols, in the order of `StepCoefficients`:

- T    tokens computed in the step, prefill and decode together
- B    sequences that decode in it
- ctx  sum of the KV tokens that those B sequences hold before the step
- PW   prefill attention work: sum over prefill chunks of chunk · (history + chunk / 2)
- KP   mean KV history of the prefill chunks, weighted by chunk

A step without prefill uses the `decode` coefficients, any other the `mixed` ones: the kernels differ, and so do the
slopes (by 1.6 to 2.9 for ctx on vLLM 0.19). Between two events only ctx changes, by B a step, so the durations of a
run of decode steps are an arithmetic progression: that is what makes exact jumps possible.
"""

from plimsoll.engine.profile import EngineProfile


class StepTime:
    """The step times of one profile, as plain floats for the hot path; all results in s."""

    def __init__(self, profile: EngineProfile) -> None:
        decode, mixed = profile.decode, profile.mixed
        self._host = profile.host_factor
        self._host_seq = profile.host_per_sequence
        self._da, self._de, self._db, self._dc = decode.a, decode.e, decode.b, decode.c
        self._dd, self._df, self._dg = decode.d, decode.f, decode.g
        self._ma, self._me, self._mb, self._mc = mixed.a, mixed.e, mixed.b, mixed.c
        self._md, self._mf, self._mg, self._mp, self._mk = mixed.d, mixed.f, mixed.g, mixed.pw, mixed.kp

    def decode(self, num_seqs: int, context: int) -> float:
        """A step in which `num_seqs` sequences holding `context` KV tokens in all decode one token each."""
        linear = max(self._da + self._de * num_seqs, self._db * num_seqs + self._dc)
        kernels = linear + self._dd + self._df * num_seqs + self._dg * context
        return self._host * kernels + self._host_seq * num_seqs

    def growth(self, num_seqs: int) -> float:
        """By how much each decode step of an unchanged batch is longer than the one before it."""
        return self._host * self._dg * num_seqs

    def mixed(  # noqa: PLR0917 - the six symbols of the formula, called once a step
        self, prefill: int, num_prefills: int, num_seqs: int, context: int, work: float, history: float
    ) -> float:
        """A step that computes `prefill` prompt tokens of `num_prefills` requests beside the decoding ones.

        `work` is PW and `history` is KP, see above.
        """
        tokens = prefill + num_seqs
        linear = max(self._ma + self._me * tokens, self._mb * tokens + self._mc)
        kernels = linear + self._md + self._mf * num_seqs + self._mg * context + self._mp * work + self._mk * history
        return self._host * kernels + self._host_seq * (num_seqs + num_prefills)


def unloaded_ttft(profile: EngineProfile, prompt_tokens: int, cached: int = 0) -> float:
    """Seconds from submission to first token on an idle replica, `cached` prompt tokens being in its prefix cache.

    A prompt that is cached whole still computes its last token, as in vLLM.
    """
    steps = StepTime(profile)
    done = max(0, min(cached, prompt_tokens - 1))
    total = 0.0
    while done < prompt_tokens:
        chunk = min(profile.max_batched_tokens, prompt_tokens - done)
        total += steps.mixed(chunk, 1, 0, 0, chunk * (done + chunk / 2), float(done))
        done += chunk
    return total


def unloaded_tpot(profile: EngineProfile, context: int = 1024) -> float:
    """Seconds a token for one sequence alone on a replica, at `context` KV tokens."""
    return StepTime(profile).decode(1, context)


def unloaded_e2e(profile: EngineProfile, prompt_tokens: int, output_tokens: int, cached: int = 0) -> float:
    """Seconds from submission to last token on an idle replica."""
    num_steps = max(0, output_tokens - 1)
    steps = StepTime(profile)
    decode = num_steps * steps.decode(1, prompt_tokens) + steps.growth(1) * num_steps * (num_steps - 1) / 2
    return unloaded_ttft(profile, prompt_tokens, cached) + decode


def beyond_fit(profile: EngineProfile, tokens: int, context: int) -> str:
    """Why a step lies outside the range that the profile was fitted on; "" where it does not or nobody said."""
    if profile.fitted_max_tokens and tokens > profile.fitted_max_tokens:
        return f"{tokens} tokens in a step, fitted up to {profile.fitted_max_tokens}"
    if profile.fitted_max_context and context > profile.fitted_max_context:
        return f"{context} context tokens, fitted up to {profile.fitted_max_context}"
    return ""
