"""A checkpoint in memory: what all methods of a language model work on."""

from dataclasses import replace

from clozeworks.checkpoints.folder import Checkpoint
from clozeworks.checkpoints.generation import max_positions_of, start_of
from clozeworks.checkpoints.report import LoadReport
from clozeworks.checkpoints.sentence import Pooling, Prompts, set_pooling, stated_pooling
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.model import Model
from clozeworks.errors import SettingError, UnsupportedError
from clozeworks.families.family import Family
from clozeworks.text.tokenizer.files import CONVERT
from clozeworks.text.tokenizer.tokenizer import Tokenizer

# Entries of the vocabulary of models whose tokens are bytes.
BYTES = 384


class LoadedCheckpoint:
    """A model with its tokenizer, its family and everything else its folder states.

    Attributes:
        checkpoint: Everything its folder states.
        name: What messages call the model.
    """

    def __init__(self, checkpoint: Checkpoint, name: str) -> None:
        self.checkpoint = checkpoint
        self.name = name

    @property
    def model(self) -> Model:
        """The network."""
        return self.checkpoint.model

    @property
    def blueprint(self) -> Blueprint:
        """The description of the network."""
        return self.model.blueprint

    @property
    def family(self) -> Family:
        """The published family."""
        return self.checkpoint.family

    @property
    def report(self) -> LoadReport:
        """What happened while weights were loaded."""
        return self.checkpoint.report

    @property
    def pooling(self) -> Pooling:
        """How token vectors are pooled; set it to change what `embed` does and `save` writes."""
        return stated_pooling(self.checkpoint.pooling, self.blueprint)

    @pooling.setter
    def pooling(self, value: Pooling) -> None:
        if not isinstance(value, Pooling):
            rule = "it must be a cw.Pooling"
            raise SettingError("pooling", value, rule, 'write cw.Pooling(modes=("mean",))')
        set_pooling(self.model, value)
        self.checkpoint.pooling = replace(value, stated=True)

    @property
    def prompts(self) -> Prompts:
        """Prompts to put before a text, by name; the folder may name a default."""
        return self.checkpoint.prompts

    @property
    def has_tokenizer(self) -> bool:
        """Whether the folder holds a tokenizer."""
        return self.checkpoint.tokenizer is not None

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer.

        Raises:
            UnsupportedError: If the folder has none.
        """
        if self.checkpoint.tokenizer is None:
            if self.checkpoint.unread is not None:
                raise UnsupportedError(f"{self.name}: {self.checkpoint.unread} {CONVERT}")
            files = "tokenizer.json, or vocab.txt, or vocab.json with merges.txt"
            if self.family.of_bytes and self.blueprint.embeddings.tokens == BYTES:
                files = "the files that `clozeworks tokenizer bytes` makes"
            raise UnsupportedError(f"{self.name} has no tokenizer; put {files} into the folder.")
        return self.checkpoint.tokenizer

    def limited(self, max_length: int | None, usual: int | None = None) -> int | None:
        """How many tokens a text may have: as asked, or what the model and `usual` allow."""
        if max_length is not None:
            return checked_length(max_length, 1, self.blueprint.max_length())
        return min(filter(None, (self.max_length, usual)), default=None)

    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens of a text, special ones included; None without a limit."""
        max_positions = max_positions_of(self.blueprint, self.checkpoint.config)
        limits = [max_positions, self.tokenizer.max_length]
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def start(self) -> int | None:
        """The decoder start token of an encoder-decoder."""
        point = self.checkpoint
        rows = point.model.blueprint.embeddings.tokens
        return start_of(point.generation, point.config, self.tokenizer, rows)


def checked_length(value: int, minimum: int, limit: int | None) -> int:
    """A maximum number of tokens that is not below a minimum, nor above what a model takes."""
    if value < minimum:
        raise SettingError("max_length", value, f"it must be at least {minimum}")
    if limit is not None and value > limit:
        rule = f"this model takes at most {limit:,} tokens"
        raise SettingError("max_length", value, rule, "lower it")
    return value
