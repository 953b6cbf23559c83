"""An index of made-up vectors, without a model."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clozeworks.search.documents import IndexedDocument, PassageSpan
from clozeworks.search.state import IndexState, ModelNote, write_state

WIDTH = 8


def vector_of(text: str) -> np.ndarray:
    """A unit vector that only the text decides."""
    vector = np.random.default_rng(abs(sum(map(ord, text)))).normal(size=WIDTH)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


class Embedder:
    """Cuts texts at bars, gives each part a vector, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, documents):
        passages, vectors = [], []
        for document in documents:
            self.asked.append(document.text)
            begin, spans = 0, []
            for part in document.text.split("|"):
                spans.append(PassageSpan(begin, begin + len(part)))
                vectors.append(vector_of(part))
                begin += len(part) + 1
            passages.append(spans)
        return passages, np.array(vectors)


@pytest.fixture
def embedder() -> Embedder:
    return Embedder()


@pytest.fixture
def fresh_state(tmp_path: Path) -> Callable[[str], tuple[Path, IndexState]]:
    """Makes an index without documents."""

    def make(name: str = "index") -> tuple[Path, IndexState]:
        folder = tmp_path / name
        folder.mkdir()
        model = ModelNote("m", "t", "mean", 16, "", "", ())
        state = IndexState(model, WIDTH, "cosine", 16)
        write_state(folder, state)
        return folder, state

    return make


@pytest.fixture
def made_documents() -> Callable[..., list[IndexedDocument]]:
    """Documents with numbers for ids, every fourth with two passages."""

    def make(*numbers: int, suffix: str = "") -> list[IndexedDocument]:
        return [
            IndexedDocument(
                f"d{number:03}",
                f"text {number}{suffix}" + (f"|more {number}" if number % 4 == 0 else ""),
                {"year": 2000 + number, "kind": "ab"[number % 2]},
                f"a.txt, line {number:,}",
            )
            for number in numbers
        ]

    return make
