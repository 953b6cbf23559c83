"""The methods of a language model that look at the space of its vectors, and repair it."""

from collections.abc import Sequence
from typing import Unpack

import torch

from clozeworks.checkpoints.sentence import add_step
from clozeworks.core.heads.sentence_vectors import Dense
from clozeworks.errors import InputError
from clozeworks.inference.embed import Vectors
from clozeworks.inference.space.measures import Space, TextFacts, measure_space
from clozeworks.inference.space.repair import Repair, fit_repair
from clozeworks.language_model.embedding_methods import EmbeddingMethods, EmbedKeywords
from clozeworks.wording import counted

# With fewer there is no third text that could be nearer.
LEAST_TEXTS = 3


def too_few_texts(count: int) -> str:
    """What is said of texts that make no space."""
    number = f"there {'is' if count == 1 else 'are'} {counted(count, 'different text')}"
    return (
        f"{number}; a space needs at least {LEAST_TEXTS}, and some hundreds to be measured; give "
        "more."
    )


class SpaceMethods(EmbeddingMethods):
    """How vectors fill their space, and a repair without training."""

    def space(
        self,
        texts: Sequence[str],
        *,
        pairs: Sequence[tuple[str, str]] | None = None,
        **options: Unpack[EmbedKeywords],
    ) -> Space:
        """Measures how the vectors of texts fill their space.

        `print(space.mean_cosine, space.iso_score)`; `clozeworks space` prints all measures with
        what they mean, and draws them.

        Args:
            texts: The texts; each counts once. All pairs are compared: a few thousand are enough.
            pairs: Texts that mean the same, for `alignment`.
            options: As for `embed`; vectors are taken before they are scaled to length 1.

        Raises:
            InputError: If there are fewer than three different texts.
        """
        distinct = list(dict.fromkeys(texts))
        if len(distinct) < LEAST_TEXTS:
            raise InputError(too_few_texts(len(distinct)))
        raw: EmbedKeywords = {**options, "normalize": False}
        vectors = self.embed(distinct, **raw)
        facts = self.text_facts(distinct, raw)
        paired: tuple[Vectors, Vectors] | None = None
        if pairs:
            paired = (
                self.embed([first for first, _ in pairs], **raw),
                self.embed([second for _, second in pairs], **raw),
            )
        return measure_space(vectors, facts, paired)

    def text_facts(self, texts: Sequence[str], options: EmbedKeywords) -> TextFacts:
        """Counts the tokens of texts as `embed` with these options reads them."""
        tokenizer = self.tokenizer.lowercased if self.pooling.lowercase else self.tokenizer
        limit = self.limited(options.get("max_length"), self.pooling.max_length)
        cut = bool(options.get("truncate")) and limit is not None
        encoded = tokenizer.encode(list(texts), max_length=limit, truncate=cut)
        return TextFacts.of([text.ids for text in encoded])

    def whiten(
        self,
        texts: Sequence[str],
        *,
        method: str = "whiten",
        dimensions: int | None = None,
        **options: Unpack[EmbedKeywords],
    ) -> Repair:
        """Adds a dense layer after the pooling that makes the space more even; nothing is trained.

        From then on `embed` returns repaired vectors, and `save` writes the layer as a Dense module
        that sentence-transformers reads. A model that was trained to compare texts may get worse by
        it: measure it on scored pairs, as `clozeworks whiten --pairs` does.

        Args:
            texts: The texts it is computed from; each counts once. Not those you measure on.
            method: whiten (all directions get the same variance), centre (the mean is subtracted),
                all-but-the-top (the mean and the top hundredth of the directions are taken out),
                or pca (the directions with most variance).
            dimensions: How many directions whiten and pca keep; all that have any variance if not
                given.
            options: As for `embed`.

        Raises:
            InputError: If there are not more texts than dimensions.
            SettingError: If there is no such method, or not as many dimensions.
        """
        raw: EmbedKeywords = {**options, "normalize": False}
        repair = fit_repair(self.embed(list(dict.fromkeys(texts)), **raw), method, dimensions)
        self.add_repair(repair)
        return repair

    def add_repair(self, repair: Repair) -> None:
        """Adds a repair as a dense layer, before vectors are scaled to length 1."""
        weights = {
            "linear.weight": torch.from_numpy(repair.matrix.T.copy()).float(),
            "linear.bias": torch.from_numpy(repair.bias).float(),
        }
        step = Dense(width=repair.dimensions)
        self.checkpoint.pooling = add_step(self.model, self.pooling, step, weights)
