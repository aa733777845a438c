"""The ladder's place on the path: what a request loses before it is dispatched.

Level 0 (nothing is taken) is the only level now; triggers and further levels stand on this seam.
"""

from plimsoll.governor.request import Request
from plimsoll.policy.policy import Degradation


class Ladder:
    """The level that holds, and what it does to a request."""

    def __init__(self, policy: Degradation) -> None:
        self.policy = policy
        self.level = 0

    def taken(self, request: Request) -> str:
        """What is taken from the request, as its row will say; "" for nothing."""
        return ""
