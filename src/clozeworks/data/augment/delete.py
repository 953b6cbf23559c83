"""Leaves words out.

Paper: Wei & Zou 2019 (EDA: random deletion).
The idea: what a text says rarely hangs on a single word, so a text without some of them has the
same label.
Where we differ: punctuation stays where it is, and so do entities and answers.
Example: `Delete(fraction=0.1)`, or in a recipe `{kind = "delete", fraction = 0.1}`.
"""

from typing import ClassVar

from clozeworks.data.augment import AugmentSpec, Fraction
from clozeworks.data.augment.changing import Draw
from clozeworks.data.augment.passage import Changes, Passage
from clozeworks.spec import spec


@spec
class Delete(AugmentSpec):
    """Leaves out each word with the same chance, on its own; in a short text perhaps none."""

    paper: ClassVar[str] = "Wei & Zou 2019"

    fraction: Fraction = 0.1
    """How likely each word is to go."""

    def changes(self, passage: Passage, draw: Draw) -> Changes:
        """Which words go."""
        drawn = draw.uniforms("delete", len(passage.free)).tolist()
        pairs = zip(passage.free, drawn, strict=True)
        deleted = {word: number for word, number in pairs if number < self.fraction}
        for group in passage.keep_one_of:
            if group and deleted.keys() >= set(group):
                del deleted[max(group, key=deleted.__getitem__)]
        return dict.fromkeys(deleted, ())
