"""Prompts that show a task by examples; nothing is trained.

Paper: Brown et al. 2020 (GPT-3).
The idea: a description, then demonstrations drawn from training examples, then the text itself.
Every text gets demonstrations of its own, drawn as a function of the seed and its place. Text in,
text out: what is made stands before a prompt that is scored or gone on with.
Where paper and code differ: the paper fills the positions; here demonstrations that do not fit are
left out, those farthest from the text first, and counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clozeworks.errors import InputError, SettingError
from clozeworks.inference.choose import check_template, parts
from clozeworks.rng import RandomStream

TEMPLATE = "{text} -> {label}"
SEPARATOR = "\n\n"
# A text and its label.
LabelledExample = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class FewShot:
    """How prompts show a task.

    Attributes:
        shots: How many demonstrations stand before a text.
        seed: Decides which.
        template: How a text and its label stand together.
        description: What is said of the task before all of them.
        separator: What stands between them.
    """

    shots: int = 8
    seed: int = 0
    template: str = TEMPLATE
    description: str = ""
    separator: str = SEPARATOR

    def __post_init__(self) -> None:
        if self.shots < 0:
            raise SettingError(f"shots is {self.shots}; it must be at least 0; raise it.")
        if not 0 <= self.seed < 2**63:
            raise SettingError(f"seed is {self.seed}; it must be at least 0 and below 2**63.")
        check_template(self.template)


@dataclass(frozen=True)
class FewShotPrompts:
    """What stands before each prompt.

    Attributes:
        texts: It, for each text.
        shots: How many demonstrations each has.
        dropped: How many did not fit, in all.
        missing: How many there were no examples for beside the texts themselves, in all.
    """

    texts: list[str]
    shots: list[int]
    dropped: int
    missing: int = 0


def demonstrations(
    texts: Sequence[str],
    examples: Sequence[LabelledExample],
    few_shot: FewShot,
    *,
    room: int | None = None,
    count: Callable[[Sequence[str]], list[int]] | None = None,
) -> FewShotPrompts:
    """Description and demonstrations for each text, as much as fits.

    Args:
        texts: What will be asked about.
        examples: Texts with their labels to draw from. A text is never shown to itself.
        few_shot: How many, and how they are written.
        room: The most tokens of description, demonstrations, prompt and label; None without a
            limit.
        count: Counts the tokens of texts; needed if there is a limit.

    Raises:
        InputError: There are fewer examples than demonstrations.
    """
    if few_shot.shots > len(examples):
        raise InputError(
            f"shots is {few_shot.shots:,} and there are {len(examples):,} examples; each is shown "
            f"once; give more, or lower shots."
        )
    written = ["".join(parts(few_shot.template, *pair)) for pair in examples]
    rng = RandomStream(few_shot.seed, "demonstrations")
    chosen = [
        _others(rng.permutation(number, len(examples)).tolist(), text, examples, few_shot.shots)
        for number, text in enumerate(texts)
    ]
    opening = few_shot.description + few_shot.separator if few_shot.description else ""
    if room is None:
        kept = chosen
    else:
        assert count is not None, "a limit in tokens needs somebody who counts them"
        used = sorted({place for own in chosen for place in own})
        sizes = dict(zip(used, count([written[p] + few_shot.separator for p in used]), strict=True))
        longest = max((label for _, label in examples), key=len, default="")
        asked = count([opening + "".join(parts(few_shot.template, t, longest)) for t in texts])
        kept = [
            _fitting(own, sizes, room - taken) for own, taken in zip(chosen, asked, strict=True)
        ]
    shown = [
        opening + "".join(written[place] + few_shot.separator for place in own) for own in kept
    ]
    drawn = sum(map(len, chosen))
    dropped, missing = drawn - sum(map(len, kept)), few_shot.shots * len(texts) - drawn
    return FewShotPrompts(shown, list(map(len, kept)), dropped, missing)


def _others(
    order: Sequence[int], text: str, examples: Sequence[LabelledExample], shots: int
) -> list[int]:
    """The first examples in an order that are not the text itself."""
    return [place for place in order if examples[place][0] != text][:shots]


def _fitting(places: Sequence[int], sizes: dict[int, int], room: int) -> list[int]:
    """The last of some demonstrations, as many as there is room for."""
    kept: list[int] = []
    for place in reversed(places):
        room -= sizes[place]
        if room < 0:
            break
        kept.insert(0, place)
    return kept
