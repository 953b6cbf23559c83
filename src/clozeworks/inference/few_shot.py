"""Few-shot prompts: a task shown by examples; nothing is trained.

Paper: Brown et al. 2020 (GPT-3).
The idea: a description, then demonstrations drawn from training examples, then the text itself.
Every text gets demonstrations of its own, drawn as a function of the seed and its index. Text in,
text out: the result is put before a prompt that is scored or continued.
Where paper and code differ: the paper fills the positions; here demonstrations that do not fit are
left out, those farthest from the text first, and counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clozeworks.errors import InputError
from clozeworks.inference.choose import check_template, parts
from clozeworks.rng import RandomStream
from clozeworks.spec import NonNegativeInt, RandomSeed, spec

TEMPLATE = "{text} -> {label}"
SEPARATOR = "\n\n"
# A text and its label.
LabelledExample = tuple[str, str]


@spec
class FewShot:
    """How prompts show a task."""

    shots: NonNegativeInt = 8
    """How many demonstrations come before a text."""
    seed: RandomSeed = 0
    """Decides which."""
    template: str = TEMPLATE
    description: str = ""
    """A description of the task, before all demonstrations."""
    separator: str = SEPARATOR
    """What separates them."""

    def __post_init__(self) -> None:
        check_template(self.template)


@dataclass(frozen=True)
class FewShotPrompts:
    """Text to put before each prompt."""

    texts: list[str]
    """One for each prompt."""
    shots: list[int]
    """How many demonstrations each has."""
    dropped: int
    """How many demonstrations did not fit, in all."""
    missing: int = 0
    """How many are missing because the only examples left were the texts themselves."""


def demonstrations(
    texts: Sequence[str],
    examples: Sequence[LabelledExample],
    few_shot: FewShot,
    *,
    max_length: int | None = None,
    count: Callable[[Sequence[str]], list[int]] | None = None,
) -> FewShotPrompts:
    """Description and demonstrations for each text, as much as fits.

    Args:
        texts: The texts that will be scored or continued.
        examples: Texts with their labels to draw from. A text is never its own demonstration.
        few_shot: How many, and how they are written.
        max_length: The maximum number of tokens of description, demonstrations, prompt and label;
            None without a limit.
        count: Counts the tokens of texts; needed if there is a limit.

    Raises:
        InputError: If there are fewer examples than `few_shot.shots`.
    """
    if few_shot.shots > len(examples):
        raise InputError(
            f"shots is {few_shot.shots:,} and there are {len(examples):,} examples; each is used "
            f"once; add examples, or lower shots."
        )
    written = ["".join(parts(few_shot.template, *pair)) for pair in examples]
    rng = RandomStream(few_shot.seed, "demonstrations")
    chosen = []
    for number, text in enumerate(texts):
        order = rng.permutation(number, len(examples)).tolist()
        # A text is never its own demonstration.
        chosen.append([n for n in order if examples[n][0] != text][: few_shot.shots])
    opening = few_shot.description + few_shot.separator if few_shot.description else ""
    if max_length is None:
        kept = chosen
    else:
        assert count is not None, "a limit in tokens needs a function that counts them"
        used = sorted({number for several in chosen for number in several})
        sizes = dict(zip(used, count([written[n] + few_shot.separator for n in used]), strict=True))
        longest = max((label for _, label in examples), key=len, default="")
        fixed = count([opening + "".join(parts(few_shot.template, t, longest)) for t in texts])
        kept = [
            _fitting(several, sizes, max_length - taken)
            for several, taken in zip(chosen, fixed, strict=True)
        ]
    shown = [
        opening + "".join(written[number] + few_shot.separator for number in several)
        for several in kept
    ]
    drawn = sum(map(len, chosen))
    dropped, missing = drawn - sum(map(len, kept)), few_shot.shots * len(texts) - drawn
    return FewShotPrompts(shown, list(map(len, kept)), dropped, missing)


def _fitting(numbers: Sequence[int], sizes: dict[int, int], tokens: int) -> list[int]:
    """The last of some demonstrations, as many as fit into so many tokens."""
    first = len(numbers)
    while first and sizes[numbers[first - 1]] <= tokens:
        first -= 1
        tokens -= sizes[numbers[first]]
    return list(numbers[first:])
