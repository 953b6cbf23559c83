"""A tiny tokenizer, texts and corpora for the commands that need them."""

import random
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "lay", "in", "its", "garden", "river"]
WORDS += ["long", "city", "old", "new", "house"]


def made_up(number: int) -> str:
    """A document of a few sentences, different for each number."""
    chance = random.Random(number)
    return " ".join(
        " ".join(chance.choices(WORDS, k=chance.randint(2, 9))).capitalize() + f" {number}."
        for _ in range(chance.randint(1, 5))
    )


def corpus_hashes(folder: Path) -> dict[str, str]:
    """The hash of every file of a corpus but its lock."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture(name="made_up")
def made_up_fixture() -> Callable[[int], str]:
    """The function that makes documents up."""
    return made_up


@pytest.fixture(name="corpus_hashes")
def corpus_hashes_fixture() -> Callable[[Path], dict[str, str]]:
    """The function that hashes a corpus."""
    return corpus_hashes


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WordPiece tokenizer that knows the words of the texts."""
    from clozeworks.text.train import train_from_iterator

    folder = tmp_path_factory.mktemp("tokenizer")
    texts = [made_up(number) for number in range(100)]
    train_from_iterator(texts, kind="wordpiece", size=300).save(folder)
    return folder


@pytest.fixture(scope="session")
def built(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with several shards and both parts; copy it before changing it."""
    from clozeworks.data import build, routes
    from clozeworks.text.tokenizer import Tokenizer

    folder = tmp_path_factory.mktemp("built")
    (folder / "a.txt").write_text("\n\n".join(map(made_up, range(300))), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "PIECE_CHARACTERS", 2_000)
        patch.setattr(routes, "SHARD_TOKENS", 1_500)
        build.build_corpus(
            [folder / "a.txt"],
            folder / "corpus",
            Tokenizer.load(tokenizer_folder),
            build.BuildSettings(validation=0.2),
        )
    return folder / "corpus"


@pytest.fixture
def corpus(built: Path, tmp_path: Path) -> Path:
    """A copy of the corpus, to be damaged."""
    return Path(shutil.copytree(built, tmp_path / "corpus"))
