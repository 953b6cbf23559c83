"""How a model that was taught text to text writes: the likeliest tokens, or a search."""

import math

from clozeworks.errors import SettingError
from clozeworks.generate.beams import Beams
from clozeworks.generate.sampling import Written
from clozeworks.spec import spec

USUAL = 128


@spec
class Writing:
    """How texts are written."""

    max_new_tokens: int | None = None
    """The most tokens; as many as the longest target has where a model is trained, else 128."""
    num_beams: int = 1
    """How many beginnings of a text a search keeps; 1 takes the likeliest token each time."""
    length_penalty: float = 1.0
    """Of a search: above 0 long texts gain, below 0 short ones."""

    def __post_init__(self) -> None:
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise SettingError(
                f"writing.max_new_tokens is {self.max_new_tokens}; it must be at least 1."
            )
        if self.num_beams < 1:
            raise SettingError(f"writing.num_beams is {self.num_beams}; it must be at least 1.")
        if self.num_beams == 1 and self.length_penalty != 1.0:
            raise SettingError(
                f"writing.length_penalty is {self.length_penalty} and writing.num_beams is 1; it "
                "has no effect without a search; set writing.num_beams, or leave it out."
            )

    def search(self) -> Beams | None:
        """The search, if there is one."""
        if self.num_beams == 1:
            return None
        return Beams(num_beams=self.num_beams, length_penalty=self.length_penalty)


def sureness(text: Written) -> float:
    """How likely a token of a text was, by the mean of the logs: from 0 to 1."""
    return math.exp(sum(text.logs) / len(text.logs)) if text.logs else 1.0
