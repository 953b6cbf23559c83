"""Goes on learning byte pair merges where a vocabulary left off.

Paper: Purason et al. 2025 (continued BPE training); Sennrich et al. 2016.
The idea: new merges stand after all old ones, so a word is first cut as it always was, and the
new merges act on those pieces. Learning them is BPE training that begins with the old pieces
instead of bytes: each step joins the pair of neighbours that occurs most, and that is the number of
tokens it saves. A word of four pieces needs three merges; the pieces between are real pieces too.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from itertools import pairwise

MergePair = tuple[str, str]


def learn_merges(
    cuts: Mapping[tuple[str, ...], int], taken: Collection[str], count: int, min_frequency: int
) -> list[MergePair]:
    """Gives pairs to join, in order; each makes a piece that did not exist.

    Args:
        cuts: How often each word occurs, by its old pieces.
        taken: Pieces that exist; no merge may make them. Trap: `<`, `mask` and `>` could become
            the mask token, and a text without any new piece would have other ids than before.
        count: The most merges.
        min_frequency: How often a pair must occur.
    """
    words = [list(pieces) for pieces in cuts]
    counts = list(cuts.values())
    pairs: Counter[MergePair] = Counter()
    positions: defaultdict[MergePair, set[int]] = defaultdict(set)
    for number, pieces in enumerate(words):
        for pair in pairwise(pieces):
            pairs[pair] += counts[number]
            positions[pair].add(number)
    pieces_taken = set(taken)
    heap = [_entry(pair, total) for pair, total in pairs.items() if total >= min_frequency]
    heapq.heapify(heap)
    merges: list[MergePair] = []
    while heap and len(merges) < count:
        total, piece, left, right = heapq.heappop(heap)
        pair = (left, right)
        if pairs[pair] != -total or piece in pieces_taken:
            continue  # joined already, or counted anew since
        pieces_taken.add(piece)
        merges.append(pair)
        changed: set[MergePair] = set()
        for number in positions.pop(pair):
            words[number], change = _join(words[number], pair)
            for other, times in change.items():
                pairs[other] += times * counts[number]
                if times > 0:
                    positions[other].add(number)
            changed.update(change)
        for other in changed:
            if pairs[other] >= min_frequency:
                heapq.heappush(heap, _entry(other, pairs[other]))
    return merges


def _entry(pair: MergePair, total: int) -> tuple[int, str, str, str]:
    """The most frequent first; the text decides between equals."""
    return -total, pair[0] + pair[1], *pair


def _join(pieces: list[str], pair: MergePair) -> tuple[list[str], Counter[MergePair]]:
    """Joins a pair in a word, from left to right; says how the counts of other pairs change."""
    joined: list[str] = []
    change: Counter[MergePair] = Counter()
    piece = pair[0] + pair[1]
    position = 0
    while position < len(pieces):
        if pieces[position] != pair[0] or pieces[position + 1 : position + 2] != [pair[1]]:
            joined.append(pieces[position])
            position += 1
            continue
        if joined:
            change[joined[-1], pair[0]] -= 1
            change[joined[-1], piece] += 1
        joined.append(piece)
        position += 2
        if position < len(pieces):
            change[pair[1], pieces[position]] -= 1
            change[piece, pieces[position]] += 1
    return joined, change
