"""One replica's rows, and what of their time its engine took, by the step-time model and the batch that they made."""

from typing import Final

import msgspec
import numpy as np

from plimsoll.diagnosis.curves import LinearSum, Running
from plimsoll.diagnosis.modelsteps import decode_steps
from plimsoll.diagnosis.prefills import Steps, prefill_steps
from plimsoll.diagnosis.sharedsteps import Prompts
from plimsoll.diagnosis.silences import SHORTEST, Life, Silences, silences
from plimsoll.diagnosis.timeparts import COLUMN, Part, TimeParts
from plimsoll.diagnosis.visits import Floats, Ints, Visits
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime

KV_FULL: Final = 0.9
"""Share of blocks above which a replica that admits nobody is taken to lack blocks."""
STALL_FACTOR: Final = 4.0
"""A gap so many times what its step should have taken is a stall."""
PACE_OVER: Final = 25
"""Neighbouring requests whose median pace is taken for the replica's at that time."""
PACE_MATTERS: Final = 0.1
"""A pace nearer to 1 than this is an error of the model, not a slower engine."""


class ReplicaRows:
    """The rows of one replica that produced tokens."""

    def __init__(self, visits: Visits, rows: Ints, profile: EngineProfile) -> None:
        self.visits = visits
        self.profile = profile
        self.times = StepTime(profile)
        self.rows = rows[visits.output[rows] > 0]
        v, r = visits, self.rows
        self.dispatched, self.ended = v.dispatched[r], np.fmax(v.ended[r], v.dispatched[r])
        self.num_gaps = np.maximum(0, v.output[r] - 1).astype(np.float64)
        self.client = np.nan_to_num(v.client_stall[r])
        self.first = self._first_tokens()
        self.span = self.ended - self.first
        where = np.flatnonzero((self.num_gaps > 0) & (self.span > 0.0))
        prompt = v.prompt[r].astype(np.float64)
        slope = self.num_gaps[where] / self.span[where]
        self.seqs = LinearSum(self.first[where], self.ended[where], 1.0)
        self.context = LinearSum(self.first[where], self.ended[where], prompt[where], slope)
        self.answers = LinearSum(self.first[where], self.ended[where], 0.0, slope)
        self.own_tokens = prompt - np.maximum(0, v.cached[r])
        self.usual_gap = self._usual_gap()

    def fill(self, found: TimeParts) -> None:
        """Write the parts of these rows into the arrays of all."""
        if not self.rows.size:
            return
        pace = np.ones(self.rows.size)
        steps, decode, longer, gap = self._divide(pace)
        pace = self._pace(decode, longer, gap)
        if (np.abs(pace - 1.0) > PACE_MATTERS).any():
            pace = np.where(np.abs(pace - 1.0) > PACE_MATTERS, pace, 1.0)
            steps, decode, longer, gap = self._divide(pace)
        began = np.minimum(self.first, np.maximum(self.dispatched, steps.began_at))
        own = np.minimum(steps.own, self.first - began)
        queue, pressure = self._waits(began, steps)
        silent = np.minimum(self._silences(steps).within(self.dispatched, began), queue)
        before = np.maximum(0.0, self.first - began - own)
        longer = np.minimum(longer, self.span)
        full = self._kv_usage(self.first + self.span / 2) >= KV_FULL
        r = self.rows
        for part, values in (
            (Part.ENGINE_QUEUE, queue - silent),
            (Part.KV_PRESSURE, pressure + np.where(full, gap, 0.0)),
            (Part.OWN_PREFILL, own),
            (Part.OTHERS_PREFILL, before + longer),
            (Part.DECODE, decode),
            (Part.STALL, silent + np.where(full, 0.0, gap)),
        ):
            found.seconds[r, COLUMN[part]] = values
        found.modelled[r] = True
        found.pace[r] = pace
        self._crowd(found.crowded, steps, began, before)

    def _first_tokens(self) -> Floats:
        """As seen; of answers that came whole, back from their end at the usual pace."""
        v, r = self.visits, self.rows
        seen = v.first[r]
        paces = v.tpot[r][~np.isnan(v.tpot[r])]
        pace = float(np.median(paces)) if paces.size else self.times.decode(1, 1024)
        guess = np.maximum(self.dispatched, self.ended - self.num_gaps * pace)
        first: Floats = np.where(np.isnan(seen), guess, np.clip(seen, self.dispatched, self.ended))
        return first

    # Steps.

    def _divide(self, pace: Floats) -> tuple[Steps, Floats, Floats, Floats]:
        """The steps with prompts, and of the time after the first token: decode, longer by prompts, one long gap."""
        steps = self._steps(pace)
        longer = Running(steps.share_at, steps.extra).between(self.first, self.ended)
        usual = self.usual_gap * pace
        decode = np.minimum(self.num_gaps * usual, np.maximum(0.0, self.span - self.client))
        left = np.maximum(0.0, self.span - decode - longer - self.client)
        longest = np.nan_to_num(self.visits.itl_max[self.rows])
        chunk = self.times.mixed(self.profile.max_batched_tokens, 1, 1, 1024, 0.0, 0.0)
        stalled = longest > STALL_FACTOR * np.maximum(usual, chunk)  # a whole budget of prompts is no stall
        return steps, decode, longer, np.where(stalled, np.minimum(left, longest - usual), 0.0)

    def _steps(self, pace: Floats) -> Steps:
        """Those with prompts in them; what is found of each prompt in the order of the rows."""
        v, r = self.visits, self.rows
        just_before = self.first - 1e-6
        prompts = Prompts(
            tenant=v.tenant.codes[r],
            dispatched_at=self.dispatched,
            first_at=self.first,
            cached=np.maximum(0, v.cached[r]),
            tokens=v.uncached[r],
            num_seqs=self.seqs.at(just_before).astype(np.int64),
            context=self.context.at(just_before).astype(np.int64),
            pace=pace,
        )
        order = np.argsort(self.first, kind="stable")
        found = prefill_steps(self.profile, prompts.take(order))
        place = np.empty(order.size, np.int64)
        place[order] = np.arange(order.size)
        return msgspec.structs.replace(found, began_at=found.began_at[place], own=found.own[place])

    def _usual_gap(self) -> Floats:
        """Mean s between tokens of each row as the model has it, over the steps that its decoding saw."""
        edges = self.seqs.changes()
        if edges.size < 2:
            return np.zeros(self.rows.size)
        step = self._step_at((edges[:-1] + edges[1:]) / 2)
        rates = np.where(step > 0.0, 1.0 / np.where(step > 0.0, step, 1.0), 0.0)
        made = np.concatenate(([0.0], np.cumsum(np.diff(edges) * rates)))
        tokens = np.interp(self.ended, edges, made) - np.interp(self.first, edges, made)
        usual: Floats = np.where(tokens > 0.0, self.span / np.where(tokens > 0.0, tokens, 1.0), 0.0)
        return usual

    def _step_at(self, when: Floats) -> Floats:
        """What a step without prompts takes at each instant; 0.0 where nobody decodes."""
        seqs = np.rint(self.seqs.at(when)).astype(np.int64)
        return decode_steps(self.profile, seqs, self.context.at(when).astype(np.int64))

    def _pace(self, decode: Floats, longer: Floats, gap: Floats) -> Floats:
        """How many times longer than the model says steps took around each row's decoding."""
        made = self.num_gaps >= 8
        known = np.flatnonzero(made & (decode > 0.0))
        if known.size < PACE_OVER:
            return np.ones(self.rows.size)
        model = self.num_gaps[known] * self.usual_gap[known]
        took = np.maximum(0.0, self.span - longer - gap - self.client)[known]
        ratio = took / np.where(model > 0.0, model, 1.0)
        middle = self.first[known] + self.span[known] / 2
        order = np.argsort(middle)
        windows = np.lib.stride_tricks.sliding_window_view(ratio[order], PACE_OVER)
        smooth = np.median(windows, axis=1)
        at = middle[order][PACE_OVER // 2 : PACE_OVER // 2 + len(smooth)]
        pace: Floats = np.interp(self.first + self.span / 2, at, smooth)
        return pace

    # Waiting in the engine.

    def _waits(self, began: Floats, steps: Steps) -> tuple[Floats, Floats]:
        """Waiting for its turn, and, while steps had room for its prompt, for blocks (not for a place).

        Its turn could not come before the step that ran at its dispatch had ended, nor in steps that were full.
        """
        waited = began - self.dispatched
        ends, starts, full = steps.ended_at, steps.ended_at - steps.took, steps.full
        place = np.minimum(np.searchsorted(ends, self.dispatched), len(ends) - 1)
        in_step = (starts[place] <= self.dispatched) & (self.dispatched <= ends[place])
        turn = np.where(in_step, ends[place] - self.dispatched, self._step_at(self.dispatched))
        busy = Running(ends[full], (ends - starts)[full]).between(self.dispatched + np.minimum(turn, waited), began)
        free = np.maximum(0.0, waited - turn - busy)
        middle = self.dispatched + turn + np.maximum(0.0, waited - turn) / 2
        self.prompts = LinearSum(began, self.ended, self.own_tokens)
        placed = LinearSum(began, self.ended, 1.0).at(middle) >= self.profile.max_num_seqs
        pressure = np.where((self._kv_usage(middle) >= KV_FULL) & ~placed, free, 0.0)
        return waited - pressure, pressure

    def _silences(self, steps: Steps) -> Silences:
        whole = ~np.isnan(self.visits.e2e[self.rows])
        life = Life(self.dispatched, self.first, self.ended, self.visits.itl_max[self.rows], whole)
        chunk = self.times.mixed(self.profile.max_batched_tokens, 1, 1, 1024, 0.0, 0.0)
        return silences(life, Running(steps.ended_at, steps.took), max(SHORTEST, STALL_FACTOR * chunk))

    def _kv_usage(self, when: Floats) -> Floats:
        """From the tokens that the rows held, and from what the replica said at the dispatch before."""
        capacity = self.profile.num_blocks * self.profile.block_size
        told = np.nan_to_num(self.visits.report_kv[self.rows])
        held: Floats = np.maximum(told, (self.prompts.at(when) + self.answers.at(when)) / capacity)
        return held

    def _crowd(self, crowded: Floats, steps: Steps, began: Floats, before: Floats) -> None:
        """Whose prompts a row waited behind, and whose made its steps longer."""
        ends, extra, tenants, busy = steps.share_at, steps.extra, steps.tenant, steps.busy
        mine = self.visits.tenant.codes[self.rows]
        for tenant in np.unique(tenants):
            his = tenants == tenant
            ahead = Running(ends[his], busy[his]).between(self.dispatched, began)
            beside = Running(ends[his], extra[his]).between(self.first, self.ended)
            together = Running(ends[his], busy[his]).between(began, self.first)
            share = np.where(mine == tenant, 0.0, np.minimum(before, together))
            crowded[self.rows, tenant] += ahead + beside + share
