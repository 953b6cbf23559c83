"""Chooses runs of pieces that are worth a piece of their own, for WordPiece and Unigram.

The idea: a run of neighbouring pieces that becomes one piece saves its length less one, each time
it occurs. Runs are tried from the greatest saving down; what one really saves, beside the pieces
chosen before it and under the tokenizer's own way of cutting, is counted when its turn comes.

A character that the vocabulary cannot write makes a word unknown. It counts as a piece that costs
twice, so missing characters are worth having too.
"""

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from zlib import crc32

# Pieces of a run; of words in all, the most frequent first. They bound time and memory.
LONGEST_RUN = 8
PIECES = 500_000
# Above every other character, so it ends the range of all that begin alike.
_LAST = "\U0010ffff"


def most_frequent(words: Mapping[str, int]) -> list[tuple[str, int]]:
    """Words with their counts, the most frequent first.

    Equals are mixed, so that those that come first stand for all: by spelling, a limit would keep
    nothing but the beginning of the alphabet.
    """
    return sorted(words.items(), key=lambda item: (-item[1], crc32(item[0].encode()), item[0]))


class LongestFirst:
    """WordPiece: from the left, always the longest piece that fits.

    What cannot be written is cut into characters.
    """

    spoils = True  # one character that cannot be written makes its whole word unknown

    def __init__(self, pieces: Iterable[str], prefix: str) -> None:
        self._known = set(pieces)
        self._prefix = prefix
        self.add: Callable[[str], None] = self._known.add
        self.remove: Callable[[str], None] = self._known.discard
        self.knows = self._known.__contains__

    def cut(self, word: str, *, inside: bool = False) -> list[int]:
        """Where the pieces of a word end, or those of a part from inside one."""
        ends: list[int] = []
        begin, known = 0, self._known
        while begin < len(word):
            rest = self._prefix + word[begin:] if begin or inside else word[begin:]
            end = len(word)
            while end > begin + 1 and rest not in known:
                rest = rest[:-1]
                end -= 1
            ends.append(end)
            begin = end
        return ends

    def piece(self, word: str, begin: int, end: int) -> str:
        """A piece that continues a word has the prefix."""
        return self._prefix + word[begin:end] if begin else word[begin:end]


class FewestFused:
    """Unigram: the old pieces, runs of them fused so that as few as possible are left.

    That is what the likeliest cut becomes when a fused piece is barely likelier than its parts.
    """

    spoils = False

    def __init__(self, pieces: Iterable[str], old: Mapping[str, Sequence[int]]) -> None:
        self._pieces = frozenset(pieces)
        self._fused: set[str] = set()
        self._old = old
        self.add: Callable[[str], None] = self._fused.add
        self.remove: Callable[[str], None] = self._fused.discard

    def knows(self, piece: str) -> bool:
        """Whether there is this piece."""
        return piece in self._pieces or piece in self._fused

    def cut(self, word: str) -> list[int]:
        """Where the pieces of a word end."""
        ends = [0, *self._old[word]]
        costs, before = [0], [0]
        for last in range(1, len(ends)):
            single = 1 if self.knows(word[ends[last - 1] : ends[last]]) else 2
            best, origin = costs[last - 1] + single, last - 1
            for first in range(last - 2, max(last - LONGEST_RUN, 0) - 1, -1):
                if costs[first] + 1 < best and word[ends[first] : ends[last]] in self._fused:
                    best, origin = costs[first] + 1, first
            costs.append(best)
            before.append(origin)
        cuts, position = [], len(ends) - 1
        while position:
            cuts.append(ends[position])
            position = before[position]
        return cuts[::-1]

    def piece(self, word: str, begin: int, end: int) -> str:
        """A piece is the text itself."""
        return word[begin:end]


# Cuts words as a tokenizer's model does, with pieces that come and go.
WordCutter = LongestFirst | FewestFused


class Fusing:
    """The words of a text, how they are cut at the moment, and what that costs."""

    def __init__(self, words: Mapping[str, int], cutter: WordCutter, min_frequency: int) -> None:
        self._cutter = cutter
        self._min_frequency = min_frequency
        self._words: list[str] = []
        self._counts: list[int] = []
        self._cuts: list[list[int]] = []
        self._costs: list[int] = []
        held = 0
        for word, count in most_frequent(words):
            cut = cutter.cut(word)
            cost = self._cost(word, cut)
            if cost > 1:
                held += len(cut)
                if held > PIECES and self._words:
                    break
                self._words.append(word)
                self._counts.append(count)
                self._cuts.append(cut)
                self._costs.append(cost)
        # Every position where a piece begins, with all that follows it in its word.
        self._begins = sorted(
            (cutter.piece(word, begin, len(word)), number)
            for number, (word, cut) in enumerate(zip(self._words, self._cuts, strict=True))
            for begin in [0, *cut[:-1]]
        )

    def choose(self, count: int, taken: Collection[str]) -> list[str]:
        """Gives at most `count` pieces that are not `taken`, those that save most first."""
        chosen: list[str] = []
        tried = set(taken)
        while len(chosen) < count:
            # Words that were cut anew have runs that were not there before.
            runs = {run: bound for run, bound in self._runs().items() if run not in tried}
            if not runs:
                break
            tried.update(runs)
            heap = [(-bound, run) for run, bound in runs.items()]
            heapq.heapify(heap)
            while heap and len(chosen) < count:
                self._fill(heap, chosen, count)
                self._drop_idle(chosen)
        return chosen

    def _drop_idle(self, chosen: list[str]) -> None:
        """Takes back pieces that longer ones have replaced."""
        uses = self._uses()
        for piece in [piece for piece in chosen if uses[piece] < self._min_frequency]:
            chosen.remove(piece)
            self._cutter.remove(piece)
            self._cut_anew(piece)

    def _fill(self, heap: list[tuple[int, str]], chosen: list[str], count: int) -> None:
        counted: dict[str, int] = {}
        while heap and len(chosen) < count:
            _, piece = heapq.heappop(heap)
            if counted.get(piece) == len(chosen):  # nothing was chosen since, and it is still first
                self._cutter.add(piece)
                self._cut_anew(piece)
                chosen.append(piece)
                continue
            saved, used = self._saving(piece)
            if saved > 0 and used >= self._min_frequency:
                counted[piece] = len(chosen)
                heapq.heappush(heap, (-saved, piece))

    def _runs(self) -> Counter[str]:
        """What every frequent run, and every missing character, would save at most."""
        savings: Counter[str] = Counter()
        begins: list[Sequence[int]] = [range(len(cut)) for cut in self._cuts]
        for length in range(1, LONGEST_RUN + 1):
            counts: Counter[str] = Counter()
            for number, positions in enumerate(begins):
                for position in positions:
                    if position + length <= len(self._cuts[number]):
                        counts[self._run(number, position, length)] += self._counts[number]
            frequent = {run: total for run, total in counts.items() if total >= self._min_frequency}
            if length == 1:
                missing = {r: total for r, total in frequent.items() if not self._cutter.knows(r)}
                savings.update(missing)
                continue
            savings.update({run: total * (length - 1) for run, total in frequent.items()})
            # A longer run occurs no more often than the one it begins with.
            begins = [
                [
                    position
                    for position in positions
                    if position + length < len(self._cuts[number])
                    and self._run(number, position, length) in frequent
                ]
                for number, positions in enumerate(begins)
            ]
        return savings

    def _run(self, number: int, position: int, length: int) -> str:
        cut = self._cuts[number]
        begin = cut[position - 1] if position else 0
        return self._cutter.piece(self._words[number], begin, cut[position + length - 1])

    def _where(self, piece: str) -> list[int]:
        """The words in which a piece could stand."""
        first = bisect_left(self._begins, (piece, -1))
        last = bisect_left(self._begins, (piece + _LAST, -1))
        return sorted({number for _, number in self._begins[first:last]})

    def _saving(self, piece: str) -> tuple[int, int]:
        """What a piece would save, and how often it would be used."""
        saved = used = 0
        self._cutter.add(piece)
        for number in self._where(piece):
            word = self._words[number]
            cut = self._cutter.cut(word)
            used += self._counts[number] * self._written(word, cut).count(piece)
            saved += self._counts[number] * (self._costs[number] - self._cost(word, cut))
        self._cutter.remove(piece)
        return saved, used

    def _cut_anew(self, piece: str) -> None:
        """Cuts the words in which a piece that came or went could stand."""
        for number in self._where(piece):
            word, old = self._words[number], self._cuts[number]
            cut = self._cuts[number] = self._cutter.cut(word)
            self._costs[number] = self._cost(word, cut)
            for begin in sorted(set(cut[:-1]) - set(old)):
                entry = (self._cutter.piece(word, begin, len(word)), number)
                position = bisect_left(self._begins, entry)
                if self._begins[position : position + 1] != [entry]:
                    self._begins.insert(position, entry)

    def _uses(self) -> Counter[str]:
        """How often each piece is used; in a word that stays unknown none is."""
        uses: Counter[str] = Counter()
        for number, (word, cut) in enumerate(zip(self._words, self._cuts, strict=True)):
            if not self._cutter.spoils or self._costs[number] == len(cut):
                for piece in self._written(word, cut):
                    uses[piece] += self._counts[number]
        return uses

    def _written(self, word: str, cut: Sequence[int]) -> list[str]:
        begins = [0, *cut[:-1]]
        return [self._cutter.piece(word, b, e) for b, e in zip(begins, cut, strict=True)]

    def _cost(self, word: str, cut: Sequence[int]) -> int:
        missing = sum(not self._cutter.knows(piece) for piece in self._written(word, cut))
        return len(cut) + missing
