"""Reads `degradation`: when the ladder is climbed, and what its levels take."""

from enum import StrEnum
from fractions import Fraction
from typing import Final

from plimsoll.policy.matrix import FRONT, TARGET
from plimsoll.policy.objective import Sli
from plimsoll.policy.plugins import Plugin
from plimsoll.policy.policy import Degradation, Pool, Trigger
from plimsoll.policy.section import Section

_TRIGGER: Final = Trigger()


class Level(StrEnum):
    """What a step of the degradation ladder takes away."""

    DROP_PLUGINS = "drop_plugins"
    BATCH_OF_ONE = "batch_of_one"
    SMALL_MODEL = "small_model"


class SmallModel(StrEnum):
    """Where the small model is found."""

    TARGET = TARGET
    FRONT = FRONT


def read_degradation(top: Section, pools: tuple[Pool, ...], plugins: tuple[Plugin, ...]) -> Degradation:
    """The ladder, checked against the pools and plugins that its levels need."""
    section = top.section("degradation")
    if section is None:
        return Degradation()
    levels: list[str] = []
    for level, line in section.texts("levels"):
        known = [each.value for each in Level]
        if level not in known:
            section.faults.add(section.at("levels"), line, f"{level!r} is none of {', '.join(known)}")
        elif level in levels:
            section.faults.add(section.at("levels"), line, f"{level} is given twice")
        else:
            levels.append(level)
    when = section.section("when")
    small = section.choice("small_model", SmallModel, SmallModel.TARGET)
    degradation = Degradation(_read_trigger(when) if when else Trigger(), tuple(levels), small.value)
    section.done()
    if levels and when is None:
        section.warn("levels", "never reached: `when` is missing")
    if Level.DROP_PLUGINS in levels and plugins and all(plugin.core for plugin in plugins):
        section.warn(
            "levels", "drop_plugins takes nothing: every plugin is core", "core: false where one can be spared"
        )
    if small is SmallModel.FRONT:
        _want_quality(section, levels, pools)
    elif Level.SMALL_MODEL in levels and pools and not any(pool.degrade_target for pool in pools):
        section.fault("levels", "small_model needs a pool with degrade_target: true")
    return degradation


def _want_quality(section: Section, levels: list[str], pools: tuple[Pool, ...]) -> None:
    """A pool is on the front, or may be gone to, by its quality: two models of which it is told make a choice."""
    known = {pool.model for pool in pools if pool.quality is not None}
    if pools and len(known) < 2:
        without = ", ".join(
            [f"pools[{i}].quality ({pool.name})" for i, pool in enumerate(pools) if pool.quality is None]
        )
        section.fault(
            "small_model", "front needs the quality of two models at least", f"missing: {without}" if without else ""
        )
    if Level.SMALL_MODEL not in levels:
        section.warn("small_model", "never asked: levels have no small_model")


def _read_trigger(section: Section) -> Trigger:
    p99_of = section.choice("p99_of", Sli, Sli.ITL)
    if p99_of in {Sli.AVAILABILITY, Sli.RUN}:
        section.fault("p99_of", "availability has no quantile", "one of ttft, itl, tpot, e2e")
    if not section.has("saturation"):
        section.required("above")
    trigger = Trigger(
        p99_of.value,
        section.duration("above", _TRIGGER.above),
        section.duration("for", _TRIGGER.for_, zero=True),
        section.ratio("saturation", _TRIGGER.saturation, above=Fraction(0), most=2),
    )
    section.done()
    return trigger
