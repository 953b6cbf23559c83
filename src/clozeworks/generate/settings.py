"""How texts are written: when they end, which words they may hold, how tokens are chosen.

A person names settings one by one (`max_new_tokens=64, top_p=0.9, stop=["."]`); `Generation.of`
sorts them into the parts below and complains about those that contradict each other.
"""

from dataclasses import dataclass
from typing import Any, Literal

from clozeworks.config import read
from clozeworks.errors import SettingError, UnknownName
from clozeworks.generate.beams import Beams
from clozeworks.generate.logits_processors import (
    LogitsProcessorSpec,
    MinP,
    NoRepeatedNGrams,
    Occurrence,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    Typical,
)

TOKENS = 128


@dataclass(frozen=True, kw_only=True)
class Ending:
    """When a text ends, beside the model's own end."""

    max_new_tokens: int = TOKENS
    """The most tokens that are written."""
    min_new_tokens: int = 0
    """The fewest: before that the model may not end the text."""
    stop: tuple[str, ...] = ()
    """A text ends before the first of these strings that comes after the fewest tokens and after
    all required words."""

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise SettingError("max_new_tokens", self.max_new_tokens, "it must be at least 1")
        if not 0 <= self.min_new_tokens <= self.max_new_tokens:
            rule = f"it must be from 0 to `max_new_tokens`, {self.max_new_tokens:,}"
            raise SettingError("min_new_tokens", self.min_new_tokens, rule)
        if "" in self.stop:
            rule = "an empty string occurs everywhere"
            raise SettingError("stop", self.stop, rule, "leave it out")


@dataclass(frozen=True, kw_only=True)
class Wording:
    """What should come less, must not come, or must."""

    repetition_penalty: float = 1.0
    """Scores of tokens that are there already are divided by this (Keskar et al. 2019)."""
    presence_penalty: float = 0.0
    """Taken off the score of each token that was written."""
    frequency_penalty: float = 0.0
    """Taken off as often as it was written."""
    no_repeat_ngram_size: int | None = None
    """No run of so many tokens comes twice."""
    bad_words: tuple[str, ...] = ()
    """These are never written."""
    required_words: tuple[str, ...] = ()
    """These are written, at the latest at the end."""

    def __post_init__(self) -> None:
        self.rules()  # complains
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


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Tokens are drawn at random, each as often as the model finds it likely."""

    temperature: float = 1.0
    """Below 1 likely tokens become likelier, above 1 all more alike."""
    top_k: int | None = None
    """Only so many of the likeliest."""
    top_p: float | None = None
    """Only the likeliest that together have this share."""
    min_p: float | None = None
    """Only tokens at least this share as likely as the likeliest."""
    typical: float | None = None
    """Only tokens as surprising as one expects, until they have this share."""
    seed: int = 0
    """The same seed and prompt give the same text, whatever else is written beside it."""

    def __post_init__(self) -> None:
        self.rules()  # complains
        if not 0 <= self.seed < 2**63:
            raise SettingError("seed", self.seed, "it must be at least 0 and below 2**63")

    def rules(self) -> list[LogitsProcessorSpec]:
        """What shapes the shares that tokens are drawn by, in order."""
        rules: list[LogitsProcessorSpec] = []
        if self.temperature != 1:
            rules.append(Temperature(value=self.temperature))
        if self.top_k is not None:
            rules.append(TopK(count=self.top_k))
        if self.top_p is not None:
            rules.append(TopP(mass=self.top_p))
        if self.min_p is not None:
            rules.append(MinP(p=self.min_p))
        if self.typical is not None:
            rules.append(Typical(mass=self.typical))
        return rules


@dataclass(frozen=True, kw_only=True)
class Generation:
    """Everything that decides what is written.

    With `drawing` tokens are drawn, with `beams` the likeliest texts are searched for, and without
    either the likeliest token is taken each time.
    """

    ending: Ending = Ending()
    wording: Wording = Wording()
    drawing: Drawing | None = None
    beams: Beams | None = None
    num_return_sequences: int = 1
    """How many texts for each prompt."""
    top_logprobs: int = 0
    """How many alternatives each token is shown with."""

    def __post_init__(self) -> None:
        if self.num_return_sequences < 1:
            value = self.num_return_sequences
            raise SettingError("num_return_sequences", value, "it must be at least 1")
        if self.top_logprobs < 0:
            raise SettingError("top_logprobs", self.top_logprobs, "it must be at least 0")
        if self.drawing is not None and self.beams is not None:
            raise SettingError(
                "num_beams",
                self.beams.width,
                "a beam search does not sample tokens",
                "leave it out, or `sample`, `temperature`, `top_k`, `top_p`, `min_p`, `typical` "
                "and `seed`",
            )
        if (
            self.beams is not None
            and self.beams.num_beam_groups > 1
            and not self.beams.diversity_penalty > 0
        ):
            raise SettingError(
                "num_beam_groups",
                self.beams.num_beam_groups,
                f"with `diversity_penalty` {self.beams.diversity_penalty} all groups would find "
                "the same texts",
                "set `diversity_penalty` above 0, or leave it out",
            )
        if self.beams is None and self.drawing is None and self.num_return_sequences > 1:
            raise SettingError(
                "num_return_sequences",
                self.num_return_sequences,
                "greedy decoding gives one text",
                "set `sample`, or `num_beams`",
            )
        if self.beams is not None and self.num_return_sequences > self.beams.width:
            rule = f"a search finds at most `num_beams` texts, {self.beams.width:,}"
            value = self.num_return_sequences
            raise SettingError(
                "num_return_sequences", value, rule, "lower it, or raise `num_beams`"
            )
        if self.beams is not None and self.top_logprobs:
            rule = "a beam search shows no alternatives"
            advice = "leave it out, or `num_beams`"
            raise SettingError("top_logprobs", self.top_logprobs, rule, advice)

    @classmethod
    def of(
        cls,
        *,
        sample: bool | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        early_stopping: bool | Literal["never"] | None = None,
        num_beam_groups: int | None = None,
        diversity_penalty: float | None = None,
        num_return_sequences: int = 1,
        top_logprobs: int = 0,
        **named: Any,
    ) -> "Generation":
        """Settings as a person names them; see the fields of the parts.

        Args:
            sample: Whether tokens are drawn; so they are if a setting of `Drawing` is given.
                A temperature of 0 is the same as False.
            num_beams: How many beginnings of each text a search keeps; 1 is no search.
            length_penalty: Above 0 long texts gain, below 0 short ones; 1 if not given.
            early_stopping: When a search ends; see `Beams.early_stopping`.
            num_beam_groups: Into how many groups that must differ the beams are parted.
            diversity_penalty: What a token costs for each group before that chose it.
            num_return_sequences: How many texts for each prompt.
            top_logprobs: How many alternatives each token is shown with.
            named: Fields of `Ending`, `Wording` and `Drawing`.

        Raises:
            SettingError: If settings contradict each other, or have no effect.
            UnknownName: If a setting does not exist.
        """
        parts: dict[type[Any], dict[str, Any]] = {Ending: {}, Wording: {}, Drawing: {}}
        known = {name: part for part in parts for name in part.__dataclass_fields__}
        for name, value in named.items():
            if name not in known:
                raise UnknownName("setting", name, [*known, *_OTHERS])
            if value is not None:
                # Trap: a string is a sequence of its letters, and each would be a word.
                alone = name in _LISTS and isinstance(value, str)
                parts[known[name]][name] = (value,) if alone else value
        sample = read(bool | None, sample, "sample")
        if parts[Drawing].get("temperature") == 0:
            sample = bool(sample)
            del parts[Drawing]["temperature"]
            if sample:
                rule = "`sample` needs one above 0"
                raise SettingError("temperature", 0, rule, "raise it, or leave out `sample`")
        if sample is False and parts[Drawing]:
            (name, value), *others = parts[Drawing].items()
            rule = "it has no effect where no token is sampled"
            unused = "".join(f" and `{other}`" for other, _ in others)
            raise SettingError(name, value, rule, f"leave it{unused} out")
        search: dict[str, Any] = {
            "length_penalty": length_penalty,
            "early_stopping": early_stopping,
            "num_beam_groups": num_beam_groups,
            "diversity_penalty": diversity_penalty,
        }
        stated = {name: value for name, value in search.items() if value is not None}
        num_beams = read(int | None, num_beams, "num_beams")
        if stated and (num_beams or 1) < 2:
            name = min(stated)
            rule = "it has no effect without a beam search"
            raise SettingError(name, stated[name], rule, "set `num_beams`, or leave it out")
        for name, kind in (
            ("length_penalty", float),
            ("num_beam_groups", int),
            ("diversity_penalty", float),
        ):
            if name in stated:
                stated[name] = read(kind, stated[name], name)
        drawing = read(Drawing, parts[Drawing])
        return cls(
            ending=read(Ending, parts[Ending]),
            wording=read(Wording, parts[Wording]),
            drawing=drawing if sample or parts[Drawing] else None,
            beams=Beams(width=num_beams, **stated)
            if num_beams is not None and num_beams != 1
            else None,
            num_return_sequences=read(int, num_return_sequences, "num_return_sequences"),
            top_logprobs=read(int, top_logprobs, "top_logprobs"),
        )


_OTHERS = (
    "sample",
    "num_beams",
    "length_penalty",
    "early_stopping",
    "num_beam_groups",
    "diversity_penalty",
    "num_return_sequences",
    "top_logprobs",
)

# Settings that are several strings; one may be given alone.
_LISTS = ("stop", "bad_words", "required_words")
