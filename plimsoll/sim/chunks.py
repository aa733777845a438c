"""How far a long prompt's chunks go on by themselves.

While a prompt takes all of each step's budget beside those that decode, nobody is admitted, whoever comes, and nothing
comes out of it before its last chunk. So a replica need not wake for each of these steps.
"""

from plimsoll.engine.blocks import blocks_for
from plimsoll.engine.steptime import StepTime
from plimsoll.sim.batch import Batch


def quiet_until(batch: Batch, steps: StepTime, start: float, gap: float, due: int) -> float:
    """When the first step ends after which something may be told, where one that began at `start` and lasts `gap`
    runs now; `due` is the number of the step with which something of the decoding jobs is due.

    The very sums that stepping makes, so that the instants are the same.
    """
    job = batch.partial
    if job is None or len(batch.prefills) != 1:
        return start + gap
    num_seqs = len(batch.decoding)
    chunk, block = batch.max_batched_tokens - num_seqs, batch.block_size
    number, computed = batch.num_steps + 1, job.computed + job.chunk
    context, free = batch.context, batch.kv.num_free
    while number < due and job.target - computed > chunk > 0:
        free -= batch.needed_at(number + 1) + blocks_for(computed + chunk, block) - blocks_for(computed, block)
        if free < 0:
            break
        number += 1
        start += gap
        context += num_seqs
        work = chunk * (computed + chunk / 2)
        gap = steps.mixed(chunk, 1, num_seqs, context, work, chunk * computed / chunk)
        computed += chunk
    return start + gap
