"""What an engine could never hold, and what of a prefix it can share."""

from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import ProfileError
from plimsoll.sim.job import Job


def check(profile: EngineProfile, job: Job) -> None:
    """Raise ProfileError, with the numbers, where an engine of that profile could never hold the job."""
    tokens, block = job.prompt_tokens + job.output_tokens, profile.block_size
    capacity = profile.num_blocks * block
    if job.prompt_tokens < 1 or job.output_tokens < 0:
        raise ProfileError(f"job {job.id}: {job.prompt_tokens} prompt and {job.output_tokens} output tokens")
    if tokens > profile.max_context:
        raise ProfileError(f"job {job.id}: {tokens} tokens exceed the context of {profile.max_context}")
    if tokens > capacity:
        raise ProfileError(f"job {job.id}: {tokens} tokens exceed the KV cache of {capacity}")
    if job.hashes and (job.hash_tokens < block or job.hash_tokens % block):
        raise ProfileError(f"job {job.id}: hashes of {job.hash_tokens} tokens do not fit blocks of {block}")


def whole_blocks(hash_tokens: int, profile: EngineProfile) -> int:
    """Tokens of a hash's stretch that an engine can share: whole blocks, at least one."""
    return max(1, hash_tokens // profile.block_size) * profile.block_size
