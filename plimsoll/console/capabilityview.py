"""Page 8: what replicas and models have shown in a week, and the front. Pure but for `read_capabilities`."""

from pathlib import Path

from msgspec import Struct

from plimsoll.analytics.capability import Capabilities, ModelCapability, ReplicaCapability
from plimsoll.console.plots import Point, Points
from plimsoll.policy.policy import Policy
from plimsoll.storage.capabilities import kept, measured

FRONT, BEHIND = "s1", "s3"


class CapabilityView(Struct, frozen=True):
    """The page. `rated`: any pool has a quality."""

    found: Capabilities
    chart: Points
    replicas: tuple[ReplicaCapability, ...]
    models: tuple[ModelCapability, ...]
    rated: bool
    streams: int


def read_capabilities(root: Path, policy: Policy, until: float) -> Capabilities:
    """Of the week before that instant: from the hours that a gateway's projector keeps, else from the log itself."""
    found = kept(root, policy, until)
    return found if found.replicas else measured(root, policy, until)


def capability_view(found: Capabilities) -> CapabilityView:
    """The page from what was read."""
    places = [each for each in found.models if each.beaten_by is not None]
    points = tuple([_point(each) for each in places])
    streams = sum([each.num for each in found.replicas])
    chart = Points(
        name="front", title="Quality and time a token", unit="s", window="7d", num=streams, points=points,
        line=tuple(sorted((point.x, point.y) for point in points if point.kind == FRONT)), across="time a token",
        up="quality", empty="Of no pool both quality and time a token are known.",
    )  # fmt: skip
    rated = any(each.quality is not None for each in found.models)
    return CapabilityView(found, chart, found.replicas, found.models, rated, streams)


def _point(model: ModelCapability) -> Point:
    return Point(model.pool, model.latency or 0.0, model.quality or 0.0, BEHIND if model.beaten_by else FRONT)
