"""What methods that need no task take as texts; a frame is not read as its columns' names."""

from pathlib import Path

import numpy as np
import pandas
import polars
import pytest

import clozeworks as cw
from clozeworks.errors import InputError, SettingError
from clozeworks.tasks.text_to_text.items import ChatItem, Turn
from clozeworks.tasks.text_to_text.task import TextToText, Writing
from clozeworks.text.training.train import train_from_iterator

TEXTS = ["The cat sat on the mat", "The dog lay on the rug"]
FRAME = pandas.DataFrame({"text": TEXTS, "label": ["a", "b"]})
METHODS = {
    "embed": lambda models, texts: models["bert"].embed(texts),
    "similarity": lambda models, texts: models["bert"].similarity(texts),
    "hidden_states": lambda models, texts: models["bert"].hidden_states(texts),
    "logits": lambda models, texts: models["bert"].logits(texts, head="vocabulary"),
    "fill": lambda models, texts: models["bert"].fill(texts),
    "score": lambda models, texts: models["gpt2"].score(texts),
    "choose": lambda models, texts: models["gpt2"].choose(texts, ["good", "bad"]),
    "exposure": lambda models, texts: models["gpt2"].exposure(texts),
    "generate": lambda models, texts: models["gpt2"].generate(texts, max_new_tokens=2),
    "stream": lambda models, texts: list(models["gpt2"].stream(texts, max_new_tokens=2)),
}


@pytest.fixture(scope="module")
def models(models):
    tokenizer = train_from_iterator([" ".join(TEXTS)] * 3, kind="wordpiece", size=60)
    return {**models, "bert": cw.new("bert-tiny", tokenizer, hidden_size=16, num_attention_heads=2)}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (FRAME, "is a value of type DataFrame; it must be a text, or a list of texts; give one of"),
        (polars.from_pandas(FRAME), "is a value of type DataFrame; it must be a text, or a list"),
        (FRAME.to_dict("list"), "is a dict; it must be a text, or a list of texts; give one of"),
        (Path("a.txt"), "Path; it must be a text, or a list of texts; read the file first."),
        (None, "is None; it must be a text, or a list of texts."),
        (5, "is the number 5; it must be a text, or a list of texts."),
    ],
    ids=("pandas", "polars", "dict", "path", "none", "number"),
)
def test_what_is_not_a_list_of_texts_gets_a_sentence(models, method, texts, words):
    name = "prompts" if method in ("generate", "stream") else "texts"
    with pytest.raises(InputError) as caught:
        METHODS[method](models, texts)
    assert str(caught.value).startswith(f"{name} is ") and words in str(caught.value)


@pytest.mark.parametrize("form", [FRAME.text, polars.Series(TEXTS), np.array(TEXTS), tuple(TEXTS)])
def test_a_column_is_a_list_of_texts(models, form):
    bert, gpt2 = models["bert"], models["gpt2"]
    assert np.array_equal(bert.embed(form), bert.embed(TEXTS))
    assert gpt2.score(form) == gpt2.score(TEXTS)
    written = [text.text for text in gpt2.generate(form, max_new_tokens=2)]
    assert written == [text.text for text in gpt2.generate(TEXTS, max_new_tokens=2)]


def test_words_to_rank_are_a_list(models):
    with pytest.raises(SettingError) as caught:
        models["bert"].fill("The [MASK]", words="cat")
    assert str(caught.value) == "words is 'cat'; it must be a list of words; write ['cat']."


def test_generating_shows_its_progress(models, capsys, monkeypatch):
    calls = []
    models["gpt2"].generate(TEXTS, max_new_tokens=1, progress=lambda *done: calls.append(done))
    assert calls == [(1, 2), (2, 2)]
    monkeypatch.setattr("clozeworks.display.progress.ProgressBar.line", lambda *_: "a line")
    monkeypatch.setattr(
        "clozeworks.display.progress.time.monotonic", iter(range(0, 99, 9)).__next__
    )
    models["gpt2"].generate(TEXTS, max_new_tokens=1, progress=True)
    assert "a line" in capsys.readouterr().err
    with pytest.raises(SettingError, match="progress is 'bar'; it must be True, or a function"):
        models["gpt2"].generate(TEXTS, progress="bar")


def test_a_pooling_is_not_a_name(models):
    with pytest.raises(SettingError) as caught:
        models["bert"].pooling = "max"
    sentence = "pooling is 'max'; it must be a cw.Pooling; write cw.Pooling(modes=(\"mean\",))."
    assert str(caught.value) == sentence


def test_a_chat_is_a_list_of_turns(models):
    model = models["gpt2"].for_task(TextToText(between="\n", writing=Writing(max_new_tokens=3)))
    chat = [{"role": "user", "content": "The cat"}]
    (wanted,) = model.text_to_text([ChatItem((Turn("user", "The cat"),))])
    (source,) = model.text_to_text(["The cat"])
    assert wanted != source
    assert model.text_to_text(chat) == wanted
    assert model.text_to_text([{"from": "human", "value": "The cat"}]) == wanted
    written = model.text_to_text([chat, "The cat"])
    assert [each.text for each in written] == [wanted.text, source.text]
