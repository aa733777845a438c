"""Prompts of exact length that share what the trace says is shared, cut from one text made beforehand.

All pieces have one width in bytes (`1234,` or `word `), so that a prompt is a few slices, however long: making one
must not delay the next arrival. A block of a prefix id is the same tokens wherever the id occurs; all else is unlike
anything sent before, since its first tokens spell a hash of what it belongs to.
"""

from hashlib import blake2b
from typing import Final

from plimsoll.load.plan import Planned, draw

SEA: Final = 1 << 16  # pieces in the text that prompts are cut from
HEAD: Final = 6  # pieces that spell the hash: 1000**6 is beyond chance
# Short common words: mostly one token each in byte-pair vocabularies.
WORDS: Final = tuple(
    """
    able area army away back ball band bank base bath bear beat bell belt bird blue boat body bone book born
    boss both bowl bulk burn bush busy cafe cake call calm camp card care case cash cast cell chat city club
    coal coat code cold come cook cool cope copy core cost crew crop dark data date dawn days dead deal dear
    debt deep desk dial diet dirt dish door down draw drop drug dust duty each earn east easy edge else even
    ever evil exit face fact fail fair fall farm fast fear feed feel feet file fill film find fine fire firm
    fish five flat flow food foot ford form fort four free from fuel full fund gain game gate gave gear gift
    girl give glad goal goes gold golf gone good gray grew grey grow gulf hair half hall hand hang hard harm
    hate have head hear heat held help here hero high hill hire hold hole holy home hope host hour huge hung
    hunt hurt idea inch into iron item jazz join jump jury just keen keep kept kick kind king knee knew know
    lack lady laid lake land lane last late lead left less life lift like line link list live load loan lock
    logo long look lord lose loss lost love luck made mail main make male many mark mass meal mean meat
    """.split()  # noqa: SIM905 - a column of quoted words is no easier to read
)


class Prompts:
    """Makes prompts as bytes, ready to stand in a request body: token ids for completions, words for chat."""

    def __init__(self, seed: int, vocabulary: range = range(1000, 2047), words: bool = False) -> None:
        """`vocabulary` is the range of token ids, all with the same number of digits, so that every slice is exact."""
        self._seed = seed
        self._pieces = [f"{word} ".encode() for word in WORDS] if words else [f"{i},".encode() for i in vocabulary]
        self._width = len(self._pieces[0])
        if {len(piece) for piece in self._pieces} != {self._width}:
            raise ValueError(f"token ids {vocabulary.start} to {vocabulary.stop - 1} differ in their number of digits")
        num = len(self._pieces)
        self._sea = b"".join(self._pieces[int(draw(seed, "sea", i) * num)] for i in range(SEA))

    def make(self, planned: Planned) -> bytes:
        """The prompt without its brackets or quotes: `prompt_tokens` pieces, the last without its separator."""
        parts: list[bytes] = []
        left, block = planned.prompt_tokens, planned.block_tokens
        for prefix_id in planned.prefix_ids:
            take = min(block, left)
            parts.append(self._block(f"block {prefix_id}", take))
            left -= take
        if left:
            parts.append(self._block(f"row {planned.index}", left))
        return b"".join(parts)[:-1]

    def _block(self, name: str, num: int) -> bytes:
        """`num` pieces that belong to `name` alone: a head that spells its hash, then a stretch of the sea."""
        number = int.from_bytes(blake2b(f"{self._seed}/{name}".encode(), digest_size=12).digest())
        head = []
        for _ in range(min(HEAD, num)):
            number, digit = divmod(number, len(self._pieces))
            head.append(self._pieces[digit])
        return b"".join(head) + self._stretch(number % SEA, num - len(head))

    def _stretch(self, start: int, num: int) -> bytes:
        """`num` pieces of the sea from `start` on, which goes round."""
        begin, end = start * self._width, (start + num) * self._width
        whole = self._sea * (1 + end // len(self._sea)) if end > len(self._sea) else self._sea
        return whole[begin:end]
