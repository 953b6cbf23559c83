"""A sentence model as an index uses it: vectors of passages and of queries, and whether it fits.

Whether a model is the one that made an index is decided by what it does: the vectors of a few fixed
texts are stored with the index, and a model that gives others is refused. Whatever changes a vector
is noticed (weights, pooling, tokenizer, prompts, a further layer) and nothing that does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from clozeworks.arrays import Float32Array
from clozeworks.data.files.encodings import printable
from clozeworks.errors import InputError, SettingError
from clozeworks.language_model import LanguageModel
from clozeworks.search.documents import IndexedDocument, PassageSpan
from clozeworks.search.passages import passages_of
from clozeworks.search.state import IndexState, ModelNote

# Texts whose vectors are compared. They are never changed: every index has their vectors.
PROBES = (
    "The quick brown fox jumps over the lazy dog.",
    "How do I open a bank account?",
    "北京是中国的首都。",
    "a",
)
# Vectors of one model differ by so much from machine to machine, and in bfloat16.
_TOLERANCE = 0.02
# The longest passage, where a model would take longer ones: a vector says little of a long text.
LONGEST_PASSAGE = 512


@dataclass(frozen=True)
class SentenceEmbedder:
    """Embeds what an index needs, always in the same way."""

    model: LanguageModel
    similarity: Literal["cosine", "dot"]
    passage_tokens: int
    query_prompt: str
    document_prompt: str
    batch_tokens: int | None = None

    @classmethod
    def of(
        cls,
        model: LanguageModel,
        *,
        passage_tokens: int | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        batch_tokens: int | None = None,
    ) -> "SentenceEmbedder":
        """As the folder of the model states it, but for what is given.

        Raises:
            SettingError: If a passage would have more tokens than the model takes.
        """
        limit = model.limited(None, model.pooling.max_length)
        tokens = passage_tokens or min(limit or LONGEST_PASSAGE, LONGEST_PASSAGE)
        if limit is not None and tokens > limit:
            rule = f"{model.name} takes at most {limit:,} tokens"
            raise SettingError("passage_tokens", tokens, rule, "lower it")
        if tokens < 8:
            raise SettingError("passage_tokens", tokens, "it must be at least 8")
        dot = model.prompts.file.get("similarity_fn_name") == "dot"
        return cls(
            model,
            "dot" if dot else "cosine",
            tokens,
            _prompt(model, query_prompt, "query"),
            _prompt(model, document_prompt, "document"),
            batch_tokens,
        )

    @classmethod
    def for_index(
        cls, model: LanguageModel, state: IndexState, batch_tokens: int | None = None
    ) -> "SentenceEmbedder":
        """As an index was made.

        Raises:
            InputError: If the model gives other vectors than the one that made it, or the index
                notes numbers that no model gives.
        """
        note = state.model
        largest = float(np.finfo(np.float32).max)
        if any(not abs(number) <= largest for probe in note.probes for number in probe):
            raise InputError(
                "the index notes vectors of its model that are not finite; no model can be "
                "compared with them; build the index again with --overwrite."
            )
        embedder = cls(
            model,
            state.similarity,
            state.passage_tokens,
            note.query_prompt,
            note.document_prompt,
            batch_tokens,
        )
        if difference := embedder._difference(state):
            raise InputError(
                f"the index was made with {note.name}, and {model.name} {difference}; vectors of "
                "different models cannot be compared; use the model of the index, or build "
                "another index with --out."
            )
        return embedder

    def _difference(self, state: IndexState) -> str | None:
        """How the model differs from the one that made an index; None if it does not."""
        note = state.model
        if self.model.tokenizer.fingerprint != note.tokenizer:
            return "has another tokenizer"
        if self._pooling() != note.pooling:
            return f"pools otherwise ({self._pooling()}, not {note.pooling})"
        probes = self.probes()
        if probes.shape[1] != state.width:
            return f"has vectors of width {probes.shape[1]:,}, not {state.width:,}"
        before = np.array(note.probes, np.float64).reshape(-1, state.width)
        if before.shape != probes.shape:
            return "cannot be compared with it"
        scale = max(float(np.abs(before).max()), 1e-9)
        # Trap: what is not a number is not above anything.
        if not float(np.abs(probes - before).max()) <= _TOLERANCE * scale:
            return "gives other vectors"
        return None

    def note(self) -> ModelNote:
        """What an index notes of the model."""
        return ModelNote(
            name=_lasting(self.model.name),
            tokenizer=self.model.tokenizer.fingerprint,
            pooling=self._pooling(),
            max_length=self.model.limited(None, self.model.pooling.max_length),
            query_prompt=self.query_prompt,
            document_prompt=self.document_prompt,
            probes=tuple(tuple(map(float, row)) for row in self.probes()),
        )

    def _pooling(self) -> str:
        return str(self.model.pooling).partition(" (")[0]

    def probes(self) -> Float32Array:
        """The vectors of the fixed texts."""
        return self._embed(PROBES, self.document_prompt, truncate=True)

    def queries(self, texts: Sequence[str], locations: Sequence[str]) -> Float32Array:
        """The vectors of queries.

        Raises:
            InputError: If one is blank or longer than the model.
        """
        limit = self.model.limited(None, self.model.pooling.max_length)
        if limit is not None:
            whole = [self.query_prompt + text for text in texts]
            advice = "shorten it, or ask several queries"
            self.model.tokenizer.encode(
                whole, max_length=limit, source_locations=locations, advice=advice
            )
        return self._embed(texts, self.query_prompt, truncate=False, locations=locations)

    def documents(
        self, documents: Sequence[IndexedDocument]
    ) -> tuple[list[list[PassageSpan]], Float32Array]:
        """The passages of documents, and their vectors."""
        tokenizer = self.model.tokenizer
        most = self.passage_tokens - len(tokenizer.encode([self.document_prompt])[0])
        if most < 1:
            rule = (
                f"the prompt {self.document_prompt!r} and special tokens leave no room for a text"
            )
            raise SettingError("passage_tokens", self.passage_tokens, rule, "raise it")
        passages = passages_of([document.text for document in documents], tokenizer, most)
        texts = [
            document.text[begin:end]
            for document, several in zip(documents, passages, strict=True)
            for begin, end in several
        ]
        return passages, self._embed(texts, self.document_prompt, truncate=True)

    def _embed(
        self,
        texts: Sequence[str],
        prompt: str,
        *,
        truncate: bool,
        locations: Sequence[str] | None = None,
    ) -> Float32Array:
        return self.model.embed(
            list(texts),
            prompt=prompt,
            normalize=True if self.similarity == "cosine" else None,
            truncate=truncate,
            source_locations=locations,
            batch_tokens=self.batch_tokens,
        )


def _lasting(name: str) -> str:
    """A folder as it is called wherever a program runs; a hub name as it is."""
    return printable(Path(name).resolve()) if Path(name).is_dir() else name


def _prompt(model: LanguageModel, given: str | None, name: str) -> str:
    """What is put before a text: as given, else the prompt of that name, else the default."""
    if given is None and model.prompts.texts.get(name):
        given = name
    found = model.prompts.find(given)
    return found.text if found else ""
