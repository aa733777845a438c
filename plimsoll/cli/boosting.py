"""Grows trees with LightGBM, which only training needs (`pip install 'plimsoll[learned]'`), and makes them numbers."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from plimsoll.engine.learned import MOST_OFF, Trees
from plimsoll.errors import UsageError
from plimsoll.sim.heldout import QUANTILES, Floats, target_of
from plimsoll.sim.pastdispatches import Case

NUM_TREES: Final = 30  # with so few leaves as good as four times as many nodes, and a decision walks down each
LEAST: Final = 40  # cases a leaf
_RULES: Final = {
    "objective": "quantile", "learning_rate": 0.2, "num_leaves": 8, "lambda_l2": 1.0,
    "use_missing": False, "deterministic": True, "force_row_wise": True, "num_threads": 1, "seed": 0, "verbosity": -1,
}  # fmt: skip


def grow(learnt_on: Sequence[Case], least: int = LEAST) -> tuple[Trees, Trees]:
    """Of both quantiles, from cases in order of time. Raises UsageError where LightGBM is not installed."""
    p50, p90 = (trees_of(booster(learnt_on, quantile, least).dump_model()) for quantile in QUANTILES)
    return p50, p90


def forecasts(learnt_on: Sequence[Case], held: Sequence[Case], least: int = LEAST) -> Floats:
    """What those trees say of other cases, s, by LightGBM's own reading of them."""
    rows = np.array([case.facts for case in held])
    logs = [np.asarray(booster(learnt_on, quantile, least).predict(rows)) for quantile in QUANTILES]
    return np.asarray(
        rows[:, :1] * np.exp(np.clip(np.stack([logs[0], np.maximum(*logs)], axis=1), -MOST_OFF, MOST_OFF))
    )


def booster(learnt_on: Sequence[Case], quantile: float, least: int = LEAST) -> Any:
    """LightGBM's own; the same cases give the same trees."""
    try:
        import lightgbm  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise UsageError("learn: LightGBM is not installed: pip install 'plimsoll[learned]'") from error
    rows = np.array([case.facts for case in learnt_on])
    data = lightgbm.Dataset(rows, np.array([target_of(case) for case in learnt_on]))
    return lightgbm.train({**_RULES, "min_data_in_leaf": least, "alpha": quantile}, data, NUM_TREES)


def trees_of(dumped: dict[str, Any]) -> Trees:
    """LightGBM's nested trees as flat lists, each node before its children."""
    flat = _Flat()
    roots = [flat.add(tree["tree_structure"]) for tree in dumped["tree_info"]]
    nodes = flat.nodes
    return Trees(
        tuple(roots),
        tuple([node[0] for node in nodes]),
        tuple([node[1] for node in nodes]),
        tuple([node[2] for node in nodes]),
        tuple([node[3] for node in nodes]),
        tuple(flat.leaves),
    )


class _Flat:
    def __init__(self) -> None:
        self.nodes: list[tuple[int, float, int, int]] = []
        self.leaves: list[float] = []

    def add(self, node: dict[str, Any]) -> int:
        """Its index; ~index for a leaf."""
        if "split_feature" not in node:
            self.leaves.append(float(node["leaf_value"]))
            return ~(len(self.leaves) - 1)
        place = len(self.nodes)
        feature, threshold = int(node["split_feature"]), float(node["threshold"])
        self.nodes.append((feature, threshold, 0, 0))
        left, right = self.add(node["left_child"]), self.add(node["right_child"])
        self.nodes[place] = (feature, threshold, left, right)
        return place
