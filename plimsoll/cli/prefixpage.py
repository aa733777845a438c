"""How exactly prefixes are known, as metrics: of pools with `exact_prefixes`."""

from plimsoll.gateway.finding import PrefixFinder
from plimsoll.telemetry.exposition import Exposition


def write_prefixes(page: Exposition, finder: PrefixFinder) -> None:
    """Nothing where no pool asks for it."""
    if not finder.caches and not finder.results:
        return
    page.family("plimsoll_prefix_lookups_total", "counter", "Long prompts whose tokens were to be asked for.")
    for (pool, result), num in sorted(finder.results.items()):
        page.sample(num, pool=pool, result=result)
    ranks = [
        (pool, replica, str(rank), follower)
        for pool, caches in sorted(finder.caches.items())
        for replica, followers in caches.followers.items()
        for rank, follower in enumerate(followers)
    ]
    page.family("plimsoll_kv_known_blocks", "gauge", "KV blocks that an engine has said to hold.")
    for pool, replica, rank, follower in ranks:
        page.sample(0 if follower.blocks is None else len(follower.blocks), pool=pool, replica=replica, rank=rank)
    page.family("plimsoll_kv_known_whole", "gauge", "Whether these are all that it holds.")
    for pool, replica, rank, follower in ranks:
        page.sample(int(follower.whole), pool=pool, replica=replica, rank=rank)
    page.family("plimsoll_kv_events_lost_total", "counter", "Messages of KV events that could not be had again.")
    for pool, replica, rank, follower in ranks:
        page.sample(follower.num_lost, pool=pool, replica=replica, rank=rank)
