"""Reads `pools`: the replicas that serve, and which prompts go to which of them."""

import json
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from plimsoll.policy.beside import EngineTls, Exporters
from plimsoll.policy.cacherules import check_kv_events, read_exact_prefixes, read_kv_events
from plimsoll.policy.policy import Pool
from plimsoll.policy.poolsharing import check_sharing, read_adaptive
from plimsoll.policy.schedulingrules import Drafts
from plimsoll.policy.section import Section
from plimsoll.policy.tiers import read_name
from plimsoll.units import format_tokens, parse_tokens


class Engine(StrEnum):
    """Inference servers whose metrics are known; `openai` is any other that speaks the API."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"
    TGI = "tgi"
    LLAMACPP = "llamacpp"
    OPENAI = "openai"


_TELL_CAPACITY: Final = frozenset({Engine.VLLM, Engine.SGLANG, Engine.TRTLLM})
_MAY_TELL_CAPACITY: Final = frozenset({Engine.LLAMACPP, Engine.TGI})
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


ProfileCheck = Callable[[str, str, str], str]
"""(name, overrides, predictor) → what is wrong with those, "" for nothing. Profiles live in a room above."""


def read_pools(top: Section, profile_check: ProfileCheck | None = None) -> tuple[Pool, ...]:
    """All pools, in the document's order."""
    names: dict[str, int] = {}
    urls: dict[str, str] = {}
    sections = list(top.sections("pools"))
    pools = tuple([_read_pool(section, names, urls) for section in sections])
    if not pools and not top.has("pools"):
        top.faults.warn("pools", top.line, "none: every model is unknown")
    for section, pool in zip(sections, pools, strict=True):
        if profile_check is None or pool.profile is None:
            continue
        if wrong := profile_check(pool.profile, pool.overrides, ""):
            section.fault("overrides" if pool.overrides else "profile", wrong)
        elif pool.predictor and (wrong := profile_check(pool.profile, pool.overrides, pool.predictor)):
            section.fault("predictor", wrong)
    _check_ranges(top, sections, pools)
    _check_aliases(sections, pools)
    check_sharing(sections, pools)
    return pools


def _read_pool(section: Section, names: dict[str, int], urls: dict[str, str]) -> Pool:
    name = read_name(section, names, "pool")
    for key in ("model", "engine", "replicas"):
        section.required(key)
    pool = Pool(
        name=name,
        model=section.text("model"),
        engine=section.choice("engine", Engine, Engine.VLLM).value,
        replicas=_read_replicas(section, urls, name),
        min_prompt_tokens=section.whole("min_prompt_tokens", 0, least=0, parse=parse_tokens),
        max_prompt_tokens=section.whole("max_prompt_tokens", None, parse=parse_tokens),
        max_context=section.whole("max_context", None, parse=parse_tokens),
        max_concurrency=section.whole("max_concurrency", None),
        profile=section.text("profile") or None,
        degrade_target=section.flag("degrade_target", False),
        aliases=tuple([alias for alias, _ in section.texts("aliases")]),
        adapters=tuple([adapter for adapter, _ in section.texts("adapters")]),
        engine_key=_read_variable(section),
        engine_priority=section.flag("engine_priority", False),
        prefill=_read_replicas(section, urls, name, "prefill"),
        prefill_from=section.whole("prefill_from", 0, least=0, parse=parse_tokens),
        tls=_read_tls(section),
        exporters=_read_exporters(section),
        speculation=section.choice("speculation", Drafts, ""),
        sla_class=section.text("sla_class"),
        built_for=section.duration("built_for", None),
        quality=_read_quality(section),
        kv_events=read_kv_events(section),
        exact_prefixes=read_exact_prefixes(section),
        adaptive=read_adaptive(section),
        overrides=_read_overrides(section),
        predictor=section.text("predictor"),
    )
    section.done()
    if pool.overrides and pool.profile is None:
        section.fault("overrides", "there is no profile to differ from", "give profile too")
    if pool.predictor and pool.profile is None:
        section.fault("predictor", "there is no profile whose predictions it could correct", "give profile too")
    if section.has("engine"):
        check_kv_events(section, pool)
    if section.has("tls") and pool.replicas and not any(url.startswith("https:") for url in pool.replicas):
        section.fault("tls", "no replica of this pool is https")
    if pool.prefill and section.has("engine") and pool.engine != Engine.VLLM:
        section.fault("prefill", f"{pool.engine} has no such protocol", "engine: vllm, started with a KV connector")
    if pool.prefill_from and not pool.prefill:
        section.fault("prefill_from", "no engine computes prompts apart", "give prefill too")
    if pool.speculation == Drafts.SWITCH and section.has("engine") and pool.engine != Engine.LLAMACPP:
        section.fault(
            "speculation", f"{pool.engine} has no such switch in a request", "on or off, by replicas of a pool"
        )
    _check_capacity(section, pool)
    if pool.max_context is not None and (pool.max_prompt_tokens or pool.min_prompt_tokens) > pool.max_context:
        section.fault("max_context", f"{pool.max_context} tokens hold no prompt of this pool's range")
    return pool


def _read_quality(pool: Section) -> float | None:
    found = pool.ratio("quality", None, most=1_000_000)
    return None if found is None else float(found)


def _read_overrides(pool: Section) -> str:
    """As JSON with sorted keys: equal overrides are equal texts."""
    plain = pool.plain("overrides")
    return json.dumps(plain, sort_keys=True) if plain else ""


def _read_tls(pool: Section) -> EngineTls:
    section = pool.section("tls")
    if section is None:
        return EngineTls()
    tls = EngineTls(
        ca=section.text("ca"),
        verify=section.flag("verify", True),
        cert=section.text("cert"),
        key=section.text("key"),
    )
    section.done()
    if tls.key and not tls.cert:
        section.fault("key", "a key without its certificate", "give cert too")
    if not tls.verify:
        section.warn("verify", "any machine that answers there is believed", "name the engines' authority in ca")
        if tls.ca:
            section.fault("ca", "never looked at: verify is false")
    return tls


def _read_exporters(pool: Section) -> Exporters:
    section = pool.section("exporters")
    if section is None:
        return Exporters()
    num = len(pool.texts("replicas"))
    read = {name: _read_pages(section, name, num) for name in Exporters.__struct_fields__}
    section.done()
    return Exporters(**read)


def _read_pages(section: Section, name: str, num_replicas: int) -> tuple[str, ...]:
    found = []
    for i, (text, line) in enumerate(section.texts(name)):
        url = text.strip().rstrip("/")
        wrong = wrong_url(url)
        if wrong:
            section.faults.add(f"{section.at(name)}[{i}]", line, wrong, "for example http://10.0.0.1:9400")
        else:
            found.append(url)
    if len(found) not in {0, 1, num_replicas}:
        section.fault(name, f"{len(found)} pages for {num_replicas} replicas", "give one for each, or one for all")
    return tuple(found)


def _read_replicas(section: Section, known: dict[str, str], pool: str, key: str = "replicas") -> tuple[str, ...]:
    found = []
    texts = section.texts(key)
    if section.has(key) and not texts:
        section.fault(key, "at least one is needed", 'for example ["http://10.0.0.1:8000"]')
    for i, (text, line) in enumerate(texts):
        path, url = f"{section.at(key)}[{i}]", text.strip().rstrip("/")
        wrong = wrong_url(url)
        if wrong:
            section.faults.add(path, line, wrong, "for example http://10.0.0.1:8000")
        elif url in known:
            section.faults.add(path, line, f"{url} is a replica of pool {known[url]!r} already")
        else:
            known[url] = pool
            found.append(url)
    return tuple(found)


def wrong_url(url: str) -> str:
    """Why that is no URL that we can ask; "" where it is one."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return f"{url!r} is no URL"
    if not url.isascii() or not url.isprintable() or " " in url:
        return f"{url!r} has blanks or letters that no URL has (names beyond ASCII are written as xn--…)"
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        return f"{url!r} is no http or https URL with a host"
    if parts.username is not None or parts.password is not None:
        return "a URL with credentials in it; name the variable that holds the key in engine_key"
    return f"{url!r} has a query or fragment" if parts.query or parts.fragment else ""


def _read_variable(section: Section) -> str | None:
    name = section.text("engine_key")
    if name and not VARIABLE.fullmatch(name):
        section.fault("engine_key", "must be the name of an environment variable, not the key itself")
        return None
    return name or None


def _check_capacity(section: Section, pool: Pool) -> None:
    """Without any known capacity nothing could be admitted safely."""
    if pool.profile or pool.max_concurrency or not section.has("engine") or pool.engine in _TELL_CAPACITY:
        return
    if pool.engine in _MAY_TELL_CAPACITY:
        section.warn("engine", f"{pool.engine} may not tell its capacity", "give max_concurrency or a profile")
    else:
        section.fault("engine", f"{pool.engine} tells no capacity", "give max_concurrency (or a profile)")


def _check_ranges(top: Section, sections: list[Section], pools: tuple[Pool, ...]) -> None:
    """Ranges are half-open; those of one model's pools must join, or prompts in between have nowhere to go."""
    models: dict[str, list[Pool]] = {}
    for section, pool in zip(sections, pools, strict=True):
        if pool.max_prompt_tokens is not None and pool.max_prompt_tokens <= pool.min_prompt_tokens:
            section.fault("max_prompt_tokens", "must be above min_prompt_tokens: ranges are half-open, min <= n < max")
        elif pool.model and pool.replicas:
            models.setdefault(pool.model, []).append(pool)
    for model, of_model in models.items():
        reached = 0
        for pool in sorted(of_model, key=lambda pool: pool.min_prompt_tokens):
            if pool.min_prompt_tokens > reached:
                span = f"{format_tokens(reached)} to {format_tokens(pool.min_prompt_tokens)} tokens"
                note = top.warn if reached == 0 else top.fault
                note("pools", f"no pool of model {model!r} takes prompts of {span}")
            if pool.max_prompt_tokens is None:
                break
            reached = max(reached, pool.max_prompt_tokens)


def _check_aliases(sections: list[Section], pools: tuple[Pool, ...]) -> None:
    """An alias means one model, but several where all pools that have it say by what to choose: class or quality."""
    models = {pool.model for pool in pools}
    plain = [pool for pool in pools if not pool.sla_class and pool.quality is None]
    unclassed = {alias for pool in plain for alias in (pool.model, *pool.aliases)}
    meaning: dict[str, str] = {pool.model: pool.model for pool in pools}
    for section, pool in zip(sections, pools, strict=True):
        for alias in pool.aliases:
            if meaning.setdefault(alias, pool.model) != pool.model and (alias in unclassed or alias in models):
                section.fault("aliases", f"{alias!r} already means model {meaning[alias]!r}")
        for adapter in pool.adapters:
            if adapter in pool.aliases or adapter == pool.model:
                section.fault("adapters", f"{adapter!r} is a name of the model itself")
            elif meaning.setdefault(adapter, pool.model) != pool.model:
                section.fault("adapters", f"{adapter!r} already means model {meaning[adapter]!r}")
