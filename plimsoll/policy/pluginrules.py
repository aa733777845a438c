"""Reads `plugins`: what is asked about a request before it is admitted."""

import json
from typing import Final

from plimsoll.errors import UsageError
from plimsoll.policy import extensions
from plimsoll.policy.plugins import HTTP, OnError, Plugin
from plimsoll.policy.pools import VARIABLE, wrong_url
from plimsoll.policy.section import Section
from plimsoll.policy.tiers import read_name

LONGEST: Final = 60.0
"""s that a plugin may take at most: its request's client waits meanwhile."""
_PLUGIN: Final = Plugin("")


def read_plugins(top: Section) -> tuple[Plugin, ...]:
    """All plugins, in the order in which they are asked."""
    names: dict[str, int] = {}
    return tuple([_read_plugin(section, names) for section in top.sections("plugins")])


def _read_plugin(section: Section, names: dict[str, int]) -> Plugin:
    name = read_name(section, names, "plugin")
    kind = section.text("kind", HTTP)
    plugin = Plugin(
        name,
        kind,
        core=section.flag("core", _PLUGIN.core),
        timeout=section.duration("timeout", _PLUGIN.timeout),
        on_error=section.choice("on_error", OnError, _PLUGIN.on_error),
        concurrency=section.whole("concurrency", _PLUGIN.concurrency, most=10_000),
        simulated=section.duration("simulated", _PLUGIN.simulated, zero=True),
        settings=_http_settings(section) if kind == HTTP else _settings(section),
    )
    section.done()
    if plugin.timeout > LONGEST:
        section.fault("timeout", f"must be at most {LONGEST:g}s: its client waits meanwhile")
    if plugin.simulated > plugin.timeout:
        section.fault("simulated", "longer than timeout: such a plugin never answers")
    if kind != HTTP:
        _check_made(section, plugin)
    return plugin


def _http_settings(plugin: Section) -> str:
    """`url`, and perhaps the variable that holds a bearer token for it."""
    if not plugin.required("settings"):
        return _PLUGIN.settings
    section = plugin.section("settings")
    if section is None:
        return _PLUGIN.settings
    section.required("url")
    url, key = section.text("url"), section.text("key")
    section.done()
    if url and (wrong := wrong_url(url)):
        section.fault("url", wrong, "for example http://127.0.0.1:9000/check")
    if key and not VARIABLE.fullmatch(key):
        section.fault("key", "must be the name of an environment variable, not the key itself")
    return json.dumps({"key": key, "url": url} if key else {"url": url})


def _settings(plugin: Section) -> str:
    """As JSON with sorted keys: equal settings are equal texts."""
    return json.dumps(plugin.plain("settings"), sort_keys=True)


def _check_made(section: Section, plugin: Plugin) -> None:
    try:
        extensions.load("plugin", plugin.kind, json.loads(plugin.settings))
    except UsageError as error:
        section.fault("kind", f"{plugin.kind!r} is not {HTTP}, and {error}")
