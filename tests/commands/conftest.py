"""A tiny tokenizer, a GPT-2 and corpora for the commands that need them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def undrawn(blank_charts: None) -> None:
    """Reports of runs have no charts here."""


@pytest.fixture(scope="session")
def tokenizer_folder(
    made_up: Callable[[int], str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A WordPiece tokenizer that knows the words of the texts."""
    from clozeworks.text.training.train import train_from_iterator

    folder = tmp_path_factory.mktemp("tokenizer")
    texts = [made_up(number) for number in range(100)]
    train_from_iterator(texts, kind="wordpiece", size=300).save(folder)
    return folder


@pytest.fixture(scope="session")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 folder with random weights and room for long texts; copy it before changing it."""
    import clozeworks as cw
    from clozeworks.text.tokenizer.styles import GPT2_STYLE
    from clozeworks.text.training.train import train_from_iterator

    texts = ["The cat sat on the mat and the dog lay on the rug.", "Paris lies on the Seine."] * 4
    tokenizer = train_from_iterator(texts, kind="bpe", size=330, style=GPT2_STYLE)
    model = cw.new("gpt2", tokenizer, n_embd=32, n_layer=2, n_head=2, n_positions=4096)
    return model.save(tmp_path_factory.mktemp("gpt") / "model")


@pytest.fixture(scope="session")
def built(
    made_up: Callable[[int], str], tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A corpus with several shards and both parts; copy it before changing it."""
    from clozeworks.data.corpus import build, split_writer
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    folder = tmp_path_factory.mktemp("built")
    (folder / "a.txt").write_text("\n\n".join(map(made_up, range(300))), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "CHUNK_CHARACTERS", 2_000)
        patch.setattr(split_writer, "SHARD_TOKENS", 1_500)
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
