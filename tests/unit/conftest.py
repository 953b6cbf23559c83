"""A tiny corpus, and a run of a few steps on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clozeworks.engine.callbacks import Callback

TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
TINY |= {"intermediate_size": 32, "max_position_embeddings": 64}


class Listener(Callback):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def on_message(self, sentence: str) -> None:
        self.notes.append(sentence)


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture(scope="session")
def tiny_corpora(
    made_up: Callable[[int], str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A corpus for each kind of tokenizer that families here have."""
    from dataclasses import replace

    from clozeworks.data.corpus.build import BuildSettings, build_corpus
    from clozeworks.text.tokenizer.styles import GPT2_STYLE, LLAMA_STYLE, T5_STYLE, T5_TOKENS
    from clozeworks.text.tokenizer.tokenizer import Tokenizer
    from clozeworks.text.training.train import train_from_iterator

    folder = tmp_path_factory.mktemp("corpora")
    texts = [made_up(number) for number in range(200)]
    (folder / "text.txt").write_text("\n\n".join(texts), encoding="utf-8")
    tokenizers = {
        kind: train_from_iterator(texts, kind=kind, size=300) for kind in ("wordpiece", "bpe")
    }
    modes = replace(T5_TOKENS, extra=(*T5_TOKENS.extra, "[NLU]", "[NLG]", "[S2S]"))
    styles = {"t5": replace(T5_STYLE, special=modes), "gpt2": GPT2_STYLE, "llama": LLAMA_STYLE}
    for name, style in styles.items():
        tokenizers[name] = train_from_iterator(texts, kind=style.kind, size=400, style=style)
    tokenizers["bytes"] = Tokenizer.of_bytes()
    for kind, tokenizer in tokenizers.items():
        settings = BuildSettings(validation=0.2)
        build_corpus([folder / "text.txt"], folder / kind, tokenizer, settings)
    return {kind: folder / kind for kind in tokenizers}


@pytest.fixture
def tiny_recipe(tiny_corpora: dict[str, Path], tmp_path: Path) -> dict[str, Any]:
    """A run of six steps in two stages."""
    return {
        "run": str(tmp_path / "run"),
        "model": {"start": "bert-tiny", "config": TINY},
        "data": {
            "corpus": str(tiny_corpora["wordpiece"]),
            "stages": [{"length": 16, "fraction": 0.5}, {"length": 24, "fraction": 0.5}],
        },
        "objective": "bert",
        "training": {"steps": 6, "batch_tokens": 128},
        "logging": {"every_steps": 1},
        "evaluation": {"every_steps": 3, "tokens": 256},
    }
