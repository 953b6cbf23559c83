"""Generation settings: when texts end, which words they may hold, how tokens are chosen.

A person names settings one by one (`max_new_tokens=64, top_p=0.9, stop=["."]`); `Generation.of`
sorts them into the parts below and rejects those that contradict each other.
"""

from typing import Any

from clozeworks.config import read
from clozeworks.errors import SettingError, UnknownName
from clozeworks.generate.beams import Beams
from clozeworks.generate.logits_processors import (
    LogitsProcessorSpec,
    MinP,
    NoRepeatedNGrams,
    Occurrence,
    Penalty,
    ProbabilityMass,
    RepetitionPenalty,
    SamplingTemperature,
    Temperature,
    TopK,
    TopP,
    Typical,
)
from clozeworks.spec import NonNegativeInt, PositiveFloat, PositiveInt, RandomSeed, spec

TOKENS = 128


@spec
class Ending:
    """When a text ends, besides the model's own end."""

    max_new_tokens: PositiveInt = TOKENS
    """The maximum number of tokens that are generated."""
    min_new_tokens: int = 0
    """The minimum: before that the model may not end the text."""
    stop: tuple[str, ...] = ()
    """A text ends before the first of these strings that comes after the minimum number of tokens
    and after all required words."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_new_tokens <= self.max_new_tokens:
            rule = f"it must be from 0 to `max_new_tokens`, {self.max_new_tokens:,}"
            raise SettingError("min_new_tokens", self.min_new_tokens, rule)
        if "" in self.stop:
            rule = "an empty string occurs everywhere"
            raise SettingError("stop", self.stop, rule, "leave it out")


@spec
class Wording:
    """What should occur less often, must not occur, or must."""

    repetition_penalty: PositiveFloat = 1.0
    """Logits of tokens that occurred are divided by this (Keskar et al. 2019)."""
    presence_penalty: Penalty = 0.0
    """Subtracted from the logit of each generated token."""
    frequency_penalty: Penalty = 0.0
    """Subtracted once for each time it was generated."""
    no_repeat_ngram_size: PositiveInt | None = None
    """No run of so many tokens occurs twice."""
    bad_words: tuple[str, ...] = ()
    """These are never generated."""
    required_words: tuple[str, ...] = ()
    """These are generated, at the latest at the end."""
    first_tokens: tuple[str, ...] = ()
    """Texts begin with these entries of the vocabulary, and go on as the model has it."""

    def __post_init__(self) -> None:
        for name in ("bad_words", "required_words"):
            if any(not word.strip() for word in getattr(self, name)):
                rule = "one of them is empty or white space"
                raise SettingError(name, getattr(self, name), rule, "leave it out")
        both = sorted(set(self.bad_words) & set(self.required_words))
        if both:
            rule = "`required_words` lists it, too"
            raise SettingError("bad_words", both[0], rule, "leave it out of one of them")

    def rules(self) -> list[LogitsProcessorSpec]:
        """The rules that need no tokenizer."""
        rules: list[LogitsProcessorSpec] = []
        if self.repetition_penalty != 1:
            rules.append(RepetitionPenalty(penalty=self.repetition_penalty))
        if self.presence_penalty or self.frequency_penalty:
            rules.append(
                Occurrence(presence=self.presence_penalty, frequency=self.frequency_penalty)
            )
        if self.no_repeat_ngram_size is not None:
            rules.append(NoRepeatedNGrams(size=self.no_repeat_ngram_size))
        return rules


@spec
class Drawing:
    """Tokens are sampled by their probabilities."""

    temperature: SamplingTemperature = 1.0
    """Below 1 likely tokens become likelier, above 1 all more alike."""
    top_k: PositiveInt | None = None
    """Only so many of the likeliest."""
    top_p: ProbabilityMass | None = None
    """Only the likeliest that together have this probability."""
    min_p: ProbabilityMass | None = None
    """Only tokens at least this many times as likely as the likeliest."""
    typical: ProbabilityMass | None = None
    """Only tokens about as surprising as expected, until they have this probability."""
    seed: RandomSeed = 0
    """The same seed and prompt give the same text, whatever else is generated in the batch."""

    def rules(self) -> list[LogitsProcessorSpec]:
        """What changes the logits that tokens are sampled by, in order."""
        rules = (
            Temperature(value=self.temperature) if self.temperature != 1 else None,
            TopK(count=self.top_k) if self.top_k is not None else None,
            TopP(mass=self.top_p) if self.top_p is not None else None,
            MinP(p=self.min_p) if self.min_p is not None else None,
            Typical(mass=self.typical) if self.typical is not None else None,
        )
        return [rule for rule in rules if rule is not None]


@spec
class Generation:
    """All generation settings.

    With `drawing` tokens are sampled, with `beams` the likeliest texts are searched for, and
    without either the likeliest token is taken each time.
    """

    ending: Ending = Ending()
    wording: Wording = Wording()
    drawing: Drawing | None = None
    beams: Beams | None = None
    num_return_sequences: PositiveInt = 1
    """How many texts for each prompt."""
    top_logprobs: NonNegativeInt = 0
    """How many alternatives each token is shown with."""

    def __post_init__(self) -> None:
        count, beams = self.num_return_sequences, self.beams
        first, room = self.wording.first_tokens, self.ending.max_new_tokens
        if len(first) > room:
            rule = f"they are {len(first):,}, and `max_new_tokens` is {room:,}"
            raise SettingError("first_tokens", first, rule, "raise it, or leave some out")
        if beams is None:
            if self.drawing is None and count > 1:
                rule, advice = "greedy decoding gives one text", "set `sample`, or `num_beams`"
                raise SettingError("num_return_sequences", count, rule, advice)
            return
        if self.drawing is not None:
            raise SettingError(
                "num_beams",
                beams.num_beams,
                "a beam search does not sample tokens",
                "leave it out, or `sample`, `temperature`, `top_k`, `top_p`, `min_p`, `typical` "
                "and `seed`",
            )
        if beams.num_beam_groups > 1 and not beams.diversity_penalty > 0:
            raise SettingError(
                "num_beam_groups",
                beams.num_beam_groups,
                f"with `diversity_penalty` {beams.diversity_penalty} all groups would find the "
                "same texts",
                "set `diversity_penalty` above 0, or leave it out",
            )
        if count > beams.num_beams:
            rule = f"a search finds at most `num_beams` texts, {beams.num_beams:,}"
            advice = "lower it, or raise `num_beams`"
            raise SettingError("num_return_sequences", count, rule, advice)
        if self.top_logprobs:
            rule, advice = "a beam search shows no alternatives", "leave it out, or `num_beams`"
            raise SettingError("top_logprobs", self.top_logprobs, rule, advice)

    @classmethod
    def of(cls, *, sample: bool | None = None, **named: Any) -> "Generation":
        """Settings as a person names them.

        Args:
            sample: Whether tokens are sampled; they also are if a setting of `Drawing` is given.
                A temperature of 0 is the same as False.
            named: Fields of `Ending`, `Wording`, `Drawing` and `Beams`, `num_return_sequences` and
                `top_logprobs`; None counts as not given. `num_beams=1` means no search, and where
                several strings are expected, one may be given alone.

        Raises:
            SettingError: If settings contradict each other, or have no effect.
            UnknownName: If a setting does not exist.
        """
        parts: dict[Any, dict[str, Any]] = {
            part: {} for part in (Ending, Wording, Drawing, Beams, Generation)
        }
        known = {name: part for part in parts for name in part.__dataclass_fields__}
        known = {name: part for name, part in known.items() if name not in _PARTS}
        for name, value in named.items():
            if name not in known:
                raise UnknownName("setting", name, [*known, "sample"])
            if value is not None:
                # Trap: a string is a sequence of its letters, and each would be a word.
                alone = name in _LISTS and isinstance(value, str)
                parts[known[name]][name] = (value,) if alone else value
        drawn, search = parts[Drawing], parts[Beams]
        sample = read(bool | None, sample, "sample")
        if drawn.get("temperature") == 0:
            sample = bool(sample)
            del drawn["temperature"]
            if sample:
                rule = "`sample` needs one above 0"
                raise SettingError("temperature", 0, rule, "raise it, or leave out `sample`")
        if sample is False and drawn:
            (name, value), *others = drawn.items()
            rule = "it has no effect where no token is sampled"
            unused = "".join(f" and `{other}`" for other, _ in others)
            raise SettingError(name, value, rule, f"leave it{unused} out")
        if read(int, search.get("num_beams", 1), "num_beams") == 1:
            search.pop("num_beams", None)
            if search:
                name = min(search)
                rule = "it has no effect without a beam search"
                raise SettingError(name, search[name], rule, "set `num_beams`, or leave it out")
        return cls(
            ending=read(Ending, parts[Ending]),
            wording=read(Wording, parts[Wording]),
            drawing=read(Drawing, drawn) if sample or drawn else None,
            beams=read(Beams, search) if search else None,
            **{name: read(int, value, name) for name, value in parts[Generation].items()},
        )


# The fields of `Generation` that hold other settings.
_PARTS = ("ending", "wording", "drawing", "beams")
# Settings that are several strings; one may be given alone.
_LISTS = ("stop", "bad_words", "required_words", "first_tokens")
