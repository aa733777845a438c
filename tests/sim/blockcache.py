"""The plain twin of `plimsoll/sim/kvcache.py`: a dictionary of hashes and a list of blocks in order of use.

One block under each place of the free list, oldest first; nothing is kept as a run. Blocks under one hash are evicted
together: what is left of them is plain space.
"""

from collections import OrderedDict


class Piece:
    """The blocks of one hash, or one block of no hash; `owner` is the preempted job that left it behind."""

    def __init__(self, key: object, num_blocks: int, owner: int = -1) -> None:
        self.key, self.num_blocks, self.owner = key, num_blocks, owner
        self.refs = 1


class BlockCache:
    """The same questions and orders as `KvCache`, hash by hash."""

    def __init__(self, num_blocks: int) -> None:
        self.free_list: OrderedDict[int, Piece] = OrderedDict()
        self.cached: dict[object, Piece] = {}
        for _ in range(num_blocks):
            self._append(Piece(None, 1))

    @property
    def num_free(self) -> int:
        return sum(piece.num_blocks for piece in self.free_list.values())

    def match(self, hashes: tuple[object, ...], limit: int) -> list[Piece]:
        found: list[Piece] = []
        for key in hashes[:limit]:
            if key not in self.cached:
                break
            found.append(self.cached[key])
        return found

    def left_behind(self, job_id: int) -> int:
        return sum(piece.num_blocks for piece in self.free_list.values() if piece.owner == job_id)

    def take(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if piece.refs == 0:
                del self.free_list[id(piece)]
            piece.refs += 1

    def take_own(self, job_id: int) -> int:
        mine = [piece for piece in self.free_list.values() if piece.owner == job_id]
        for piece in mine:
            del self.free_list[id(piece)]
        return len(mine)

    def allocate(self, num: int) -> None:
        while num > 0:
            _, oldest = self.free_list.popitem(last=False)
            if oldest.key is not None:
                del self.cached[oldest.key]
            left = oldest.num_blocks - num
            for _ in range(left):
                self._append(Piece(None, 1))
                self.free_list.move_to_end(next(reversed(self.free_list)), last=False)
            num = max(0, -left)

    def publish(self, key: object, num_blocks: int) -> Piece:
        if key in self.cached:
            return Piece(None, num_blocks)
        self.cached[key] = Piece(key, num_blocks)
        return self.cached[key]

    def free(self, pieces: list[Piece], num_private: int) -> None:
        for _ in range(num_private):
            self._append(Piece(None, 1))
        for piece in reversed(pieces):
            piece.refs -= 1
            if piece.refs == 0:
                self._append(piece)

    def leave(self, job_id: int, num_blocks: int) -> None:
        for _ in range(num_blocks):
            self._append(Piece(None, 1, job_id))

    def forget(self, job_id: int) -> None:
        for piece in self.free_list.values():
            if piece.owner == job_id:
                piece.owner = -1

    def _append(self, piece: Piece) -> None:
        piece.refs = 0
        self.free_list[id(piece)] = piece
