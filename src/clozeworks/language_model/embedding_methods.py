"""The methods of a language model that turn texts into vectors, and compare these."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Unpack, overload

import numpy as np
import torch

from clozeworks.checkpoints.sentence import add_head
from clozeworks.core.heads.sentence_vectors import (
    TF_IDF,
    SentenceVectors,
    SentenceVectorsModule,
)
from clozeworks.core.heads.token_weights import inverse_document_frequencies
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.data.chunks import CHUNK_ITEMS, in_chunks
from clozeworks.data.files.texts import SourceLocations
from clozeworks.data.labelled.in_memory import listed_texts
from clozeworks.errors import InputError, SettingError
from clozeworks.inference import embed as embedding
from clozeworks.inference.embed import TokenVectors, Vectors
from clozeworks.inference.loop import BatchKeywords
from clozeworks.inference.similarity import Similarity, similarity
from clozeworks.language_model.batching import batch_options
from clozeworks.language_model.loaded import LoadedCheckpoint


@lru_cache(maxsize=64)
def _without_weights(
    chain: SentenceVectors,
    width: int,
    embeddings: Embeddings,
    normalize: bool,
    truncate_dim: int | None,
) -> SentenceVectorsModule:
    """A chain that every call may share: making modules takes longer than short texts do."""
    made = chain.build(width, embeddings)
    return made.changed(normalize=normalize, truncate_dim=truncate_dim)


class EmbedKeywords(BatchKeywords, total=False):
    """The keyword arguments of `embed`, but for `source_locations`."""

    prompt: str | None
    pooling: str | Sequence[str] | None
    normalize: bool | None
    truncate_dim: int | None
    max_length: int | None
    truncate: bool


class HiddenStateKeywords(BatchKeywords, total=False):
    """The keyword arguments of `hidden_states`."""

    layer: int
    max_length: int | None
    truncate: bool


class EmbeddingMethods(LoadedCheckpoint):
    """One vector per text, the hidden states of every token, and how similar texts are."""

    def embed(
        self,
        texts: str | Sequence[str],
        *,
        prompt: str | None = None,
        pooling: str | Sequence[str] | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
        max_length: int | None = None,
        truncate: bool = False,
        source_locations: Sequence[str] | None = None,
        **options: Unpack[BatchKeywords],
    ) -> Vectors:
        """Computes one vector per text, pooled as the checkpoint states (see `model.pooling`).

        If it does not state it, the mean of the encoder's hidden states, or a decoder's hidden
        state of the last token.

        Args:
            texts: One text or several.
            prompt: Text put before each text: the name of one of `model.prompts`, or any other
                text, "" for nothing. The folder's default, if it names one, if not given.
            pooling: Other poolings than the checkpoint's: first, mean, max, mean_sqrt_length,
                weighted_mean, last (tf_idf_mean and attention_mean only of a model that has
                weights for it). Steps that follow the checkpoint's own, such as a dense layer,
                are then left out.
            normalize: Whether vectors are scaled to length 1; as the checkpoint states if not
                given.
            truncate_dim: How many dimensions are kept, the first ones; vectors are scaled after
                that.
            max_length: The maximum number of tokens of a text; the model's limit if not given.
            truncate: Whether longer texts are truncated; otherwise they are an error.
            source_locations: Where each text came from, for messages: `reviews.csv, row 8,412`.
            options: `batch_tokens`, `progress` and `cancelled`, as for `predict`.

        Returns:
            For one text a vector, for several an array with a row each, in float32.

        Raises:
            InputError: If a text is empty or too long.
        """
        several = listed_texts(texts)
        before = self.prompts.find(prompt)
        with batch_options(options, self.embed) as batching:
            vectors = embedding.embed(
                self.model,
                self.tokenizer.lowercased if self.pooling.lowercase else self.tokenizer,
                several,
                prompt=before.text if before else "",
                pool_prompt=self.pooling.include_prompt,
                chain=self.chain(pooling, normalize, truncate_dim),
                max_length=self.limited(max_length, self.pooling.max_length),
                truncate=truncate,
                source_locations=source_locations,
                options=batching,
            )
        one: Vectors = vectors[0] if isinstance(texts, str) else vectors
        return one

    def chain(
        self,
        pooling: str | Sequence[str] | None = None,
        normalize: bool | None = None,
        truncate_dim: int | None = None,
    ) -> SentenceVectorsModule:
        """What makes vectors of hidden states: the model's own chain, or a pooling alone.

        Args:
            pooling: Other poolings than the model's.
            normalize: Whether vectors are scaled to length 1; as the model states if not given.
            truncate_dim: How many dimensions are kept.
        """
        own, stated = self.model.sentence, self.pooling
        asked = (pooling,) if isinstance(pooling, str) else pooling
        chain = SentenceVectors(modes=stated.modes if asked is None else tuple(asked))
        scaled = stated.normalize if normalize is None else normalize
        if own is not None and asked is None:
            base = own
        elif own is not None and chain.modes == stated.modes:
            base = own.pooling_alone()
        elif chain.has_weights:
            rule = f"{self.name} has no weights for it"
            raise SettingError("pooling", chain.modes[0], rule, "use one without weights")
        else:
            plan = self.blueprint
            return _without_weights(chain, plan.width, plan.embeddings, scaled, truncate_dim)
        return base.changed(normalize=scaled, truncate_dim=truncate_dim)

    def embed_chunks(
        self,
        texts: Iterable[str],
        *,
        chunk_size: int = CHUNK_ITEMS,
        **options: Unpack[EmbedKeywords],
    ) -> Iterator[tuple[list[str], Vectors]]:
        """Computes vectors of texts that are too many to hold in memory, such as lines of a file.

        ```python
        for texts, vectors in model.embed_chunks(line.strip() for line in open("lines.txt")):
            index.add(vectors)
        ```

        Texts are taken from the iterable as they are needed, a chunk at a time. `cw.open_vectors`
        writes vectors to a file in the same way.

        Args:
            texts: The texts: a generator, an open file, or any other iterable.
            chunk_size: The maximum number of texts of a chunk; long texts make shorter ones. Within
                a chunk texts of similar length are computed together, so a small one is slower.
            options: As for `embed`.

        Yields:
            The texts of a chunk, and an array with a row for each, in their order.

        Raises:
            InputError: If a text is empty or too long; chunks before it have been given.
        """
        if isinstance(texts, str):
            raise InputError(
                "the texts are one str; they must be an iterable of str; use embed for one text."
            )
        if chunk_size < 1:
            raise SettingError("chunk_size", chunk_size, "it must be at least 1")
        first = 1

        def length(text: str) -> int:
            return len(text) if isinstance(text, str) else 0  # embed complains about others

        for chunk in in_chunks(texts, length, most=chunk_size):
            numbers = range(first, first + len(chunk))
            locations = SourceLocations(numbers, "text {:,}".format)
            yield chunk, self.embed(chunk, source_locations=locations, **options)
            first += len(chunk)

    def weigh_tokens(self, texts: Sequence[str]) -> None:
        """Makes the pooling a mean weighted by TF-IDF: tokens of few texts count more.

        A token counts as often as it stands in a text, times ln((1 + n) / (1 + d)) + 1, if it is in
        d of the n texts given here. `save` writes the weights into the folder. A dense layer and
        whatever else followed the old pooling is left out.

        Args:
            texts: The texts the weights are computed from, such as those to be searched.

        Raises:
            InputError: If there is no text, or an empty one.
        """
        if not texts:
            raise InputError(
                "there are no texts; weights of tokens are counted in texts; give some."
            )
        embedding.check_texts(texts)
        tokenizer = self.tokenizer.lowercased if self.pooling.lowercase else self.tokenizer
        rows = self.blueprint.embeddings.tokens
        weights = inverse_document_frequencies(
            (text.ids for text in tokenizer.encode(list(texts))), rows
        )
        pooling = dataclasses.replace(self.pooling, modes=(TF_IDF,), steps=(), stated=True)
        add_head(self.model, pooling, {"pooling.weights": weights})
        self.checkpoint.pooling = pooling

    def similarity(
        self,
        first: str | Sequence[str] | Vectors,
        second: str | Sequence[str] | Vectors | None = None,
        *,
        kind: Similarity | None = None,
        **options: Any,
    ) -> Vectors:
        """How similar texts, or vectors that `embed` returned, are to each other.

        Args:
            first: One text or several, or their vectors.
            second: The texts or vectors to compare them with; the same ones if not given.
            kind: cosine, dot, euclidean or manhattan (both as negative distances); what the folder
                states if not given, cosine if it states nothing.
            options: As for `embed`.

        Returns:
            An array with a row for each of `first` and a column for each of `second`.
        """
        rows = self._vectors(first, options)
        columns = rows if second is None else self._vectors(second, options)
        stated = self.prompts.file.get("similarity_fn_name")
        return similarity(rows, columns, kind or stated or "cosine")

    def _vectors(self, given: Any, options: dict[str, Any]) -> Vectors:
        if isinstance(given, np.ndarray | torch.Tensor):
            array = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else given
            if array.dtype.kind not in "OUS":
                return np.atleast_2d(array.astype(np.float32))
        return self.embed(listed_texts(given), **options)

    @overload
    def hidden_states(  # type: ignore[overload-overlap]
        self, texts: str, **options: Unpack[HiddenStateKeywords]
    ) -> TokenVectors: ...
    @overload
    def hidden_states(
        self, texts: Sequence[str], **options: Unpack[HiddenStateKeywords]
    ) -> list[TokenVectors]: ...
    def hidden_states(
        self,
        texts: str | Sequence[str],
        *,
        layer: int = -1,
        max_length: int | None = None,
        truncate: bool = False,
        **options: Unpack[BatchKeywords],
    ) -> TokenVectors | list[TokenVectors]:
        """Computes the hidden states of every token.

        Args:
            texts: One text or several.
            layer: Which layer's output; 0 is the embeddings, -1 the last layer.
            max_length: The maximum number of tokens of a text; the model's limit if not given.
            truncate: Whether longer texts are truncated; otherwise they are an error.
            options: `batch_tokens`, `progress` and `cancelled`, as for `predict`.

        Raises:
            InputError: If a text is empty or too long.
            SettingError: If the model has no such layer.
        """
        several = listed_texts(texts)
        with batch_options(options, self.hidden_states) as batching:
            vectors = embedding.hidden_states(
                self.model,
                self.tokenizer,
                several,
                layer=layer,
                max_length=self.limited(max_length),
                truncate=truncate,
                options=batching,
            )
        return vectors[0] if isinstance(texts, str) else vectors
