"""The chart of accounts: what each account of the books is named and what its balance says.

| account | balance |
|---|---|
| `acme/ttft/bucket` | granted to the tenant's own bucket, less all spending; below zero until the close covers it |
| `acme/ttft/part` | its part of the shared pool, less what it lent |
| `acme/ttft/borrowed:beta:ttft` | borrowed from `beta`'s part |
| `acme/ttft/overdraft` | minus what was spent beyond everything it had (posted at the close) |
| `acme/ttft/spent:ours` | spent, by charge |
| `acme/ttft/exception:model_upgrade` | minus what broke in windows of exception, which `excepted:<charge>` holds |
| `acme/ttft/late` | minus what came in after its month was closed, which `late:<charge>` holds |
| `acme/@concurrency/headroom` | requests beyond its own limit that it may hold this month |
| `acme/@time/llm`, `/upstream:tool`, `/own` | ms of its runs of agents, by where they went |
| `acme/@turns/kept`, `/broken` | thousandths of turns of runs that broke nothing, or something, by their weight |
| `world/ttft/bucket`, `/part`, `/expired`, `world/@concurrency/headroom` | where grants come from and unused ones go |
| `world/@time/passed`, `world/@turns/judged` | the other side of runs' time and turns |
"""

from typing import Final, NamedTuple

BUCKET: Final = "bucket"
PART: Final = "part"
OVERDRAFT: Final = "overdraft"
EXPIRED: Final = "expired"
HEADROOM: Final = "headroom"
CONCURRENCY: Final = "@concurrency"
"""In place of an objective, whose names never begin so."""
RUN_TIME: Final = "@time"
RUN_TURNS: Final = "@turns"
"""The same of runs: where their time went, how their turns fared."""
WORLD: Final = "world"

_SPENT: Final = "spent:"
_BORROWED: Final = "borrowed:"


class Owner(NamedTuple):
    """One tenant's objective: who can hold budget."""

    tenant: str
    objective: str

    def account(self, name: str) -> str:
        """Its account of that name."""
        return f"{self.tenant}/{self.objective}/{name}"

    def borrowed_from(self, lender: "Owner") -> str:
        """Its account of what that lender lent it."""
        return self.account(f"{_BORROWED}{lender.tenant}:{lender.objective}")


class Account(NamedTuple):
    """An account's name in its parts."""

    owner: Owner
    name: str

    @property
    def charge(self) -> str | None:
        """Whose fault the spending on it was; None where it is no account of spending."""
        return self.name[len(_SPENT) :] if self.name.startswith(_SPENT) else None

    @property
    def lender(self) -> Owner | None:
        """Who lent what is on it; None where it is no account of loans."""
        if not self.name.startswith(_BORROWED):
            return None
        tenant, objective = self.name[len(_BORROWED) :].split(":", 1)
        return Owner(tenant, objective)


def account_of(text: str) -> Account:
    """The parts of an account's name; ValueError where it has not three."""
    tenant, objective, name = text.split("/", 2)
    return Account(Owner(tenant, objective), name)


def headroom_of(tenant: str) -> str:
    """The tenant's account of concurrency won by exchange."""
    return f"{tenant}/{CONCURRENCY}/{HEADROOM}"


def world(objective: str, name: str) -> str:
    """The other side of grants and of what expires."""
    return f"{WORLD}/{objective}/{name}"
