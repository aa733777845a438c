"""Which plugins look at a request before it is decided upon: all, or the core ones while its ladder drops the rest."""

from plimsoll.governor.decisions import RunPlugins
from plimsoll.governor.degradation import DROP_PLUGINS
from plimsoll.governor.events import RequestRead
from plimsoll.governor.placing import classes_for, in_turn, level_for, place_of
from plimsoll.governor.register import Register


def plugins_for(register: Register, event: RequestRead) -> RunPlugins:
    """Whatever the request will meet then: one that will be refused is asked about like any other."""
    plugins = register.policy.plugins
    if not drops(register, event):
        return RunPlugins(event.request_id, tuple([plugin.name for plugin in plugins]))
    kept = tuple([plugin.name for plugin in plugins if plugin.core])
    return RunPlugins(event.request_id, kept, tuple([plugin.name for plugin in plugins if not plugin.core]))


def drops(register: Register, event: RequestRead) -> bool:
    """Whether the ladder leaves out what is not core: at its pool's level, or at its tenant's for what is not critical.

    A request that no pool can take now goes by the ladder of the first one of its model.
    """
    account = register.account(event.tenant)
    tier = register.tier_of(account.tenant, event.tier) if event.tier else account.own_tier
    pools, classes = register.by_model.get(event.model), None if tier is None else classes_for(tier.tier, account)
    if pools is not None and tier is not None and classes is not None:
        pools = in_turn(register, tier.tier, event.model, classes).pools
    pool = place_of(register, event.model, event.prompt_tokens, pools)[0] or register.any_pool(event.model)
    if pool is None or pool.ladder is None:
        return False
    return pool.ladder.holds(DROP_PLUGINS, level_for(pool.ladder, account, event.criticality))
