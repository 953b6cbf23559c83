"""How a model that was taught text to text writes: the likeliest tokens, or a search."""

import math

from clozeworks.errors import SettingError
from clozeworks.generate.beams import Beams
from clozeworks.generate.sampling import Written
from clozeworks.spec import PositiveInt, spec

USUAL = 128


@spec
class Writing:
    """How texts are written."""

    max_new_tokens: PositiveInt | None = None
    """The most tokens; as many as the longest target has where a model is trained, else 128."""
    num_beams: PositiveInt = 1
    """How many beginnings of a text a search keeps; 1 takes the likeliest token each time."""
    length_penalty: float = 1.0
    """Of a search: above 0 long texts gain, below 0 short ones."""

    def __post_init__(self) -> None:
        if self.num_beams == 1 and self.length_penalty != 1.0:
            rule, advice = "it has no effect without a search", "set `num_beams`, or leave it out"
            raise SettingError("length_penalty", self.length_penalty, rule, advice)

    def search(self) -> Beams | None:
        """The search, if there is one."""
        if self.num_beams == 1:
            return None
        return Beams(width=self.num_beams, length_penalty=self.length_penalty)


def sureness(text: Written) -> float:
    """How likely a token of a text was, by the mean of the logs: from 0 to 1."""
    return math.exp(sum(text.logs) / len(text.logs)) if text.logs else 1.0
