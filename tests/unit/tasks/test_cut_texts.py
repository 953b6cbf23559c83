"""Long texts in classification can be cut to one window: their beginning, their end, or both."""

import pytest

import clozeworks as cw
from clozeworks.errors import SettingError
from clozeworks.jobs.finetune.data import window_forecast
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify, TextItem
from clozeworks.tasks.compare import Compare, PairItem
from clozeworks.tasks.spans.windows import Windows, read_windows
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.task import Prepared
from clozeworks.text.training.train import train_from_iterator

WORDS = [f"w{number}" for number in range(40)]
TOKENIZER = train_from_iterator([" ".join(WORDS)] * 5, kind="wordpiece", size=200)


def read(text, windows, pair=None):
    several = read_windows(
        TOKENIZER,
        [text],
        None if pair is None else [pair],
        windows=windows,
        max_length=64,
        moves="only" if pair is None else "longer",
    )
    return [window.encoded.ids for window in several], several


def ids(text):
    return TOKENIZER.encode([text])[0].ids


@pytest.fixture(scope="module")
def model():
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    return cw.new("bert-tiny", TOKENIZER, max_position_embeddings=20, **sizes)


@pytest.mark.parametrize(
    ("windows", "first", "last"),
    [
        (Windows(length=12, keep="first"), 10, 0),
        (Windows(length=12, keep="last"), 0, 10),
        (Windows(length=12, keep="both"), 5, 5),
        (Windows(length=13, keep="both"), 5, 6),
        (Windows(length=12, keep="both", keep_first=2), 2, 8),
        (Windows(length=12, keep="both", keep_first=10), 10, 0),
    ],
)
def test_one_window_holds_what_is_kept(windows, first, last):
    begin, *text, end = ids(" ".join(WORDS))
    tokens, several = read(" ".join(WORDS), windows)
    assert tokens == [[begin, *text[:first], *text[len(text) - last :], end]]
    assert several[0].dropped == len(text) - first - last


def test_a_text_that_fits_stays_whole():
    tokens, several = read("w1 w2", Windows(length=12, keep="last"))
    assert several[0].dropped == 0
    assert tokens == [ids("w1 w2")]


def test_of_two_texts_the_longer_is_cut():
    tokens, _ = read("w1 w2", Windows(length=20, keep="first"), " ".join(WORDS))
    assert len(tokens) == 1
    assert len(tokens[0]) == 20
    assert tokens[0][: len(ids("w1 w2"))] == ids("w1 w2")


def test_a_model_says_that_it_read_a_part(model):
    task = Classify(labels=("a", "b"), windows=Windows(keep="first"))
    classifier = model.for_task(task)
    long, short = classifier.classify([" ".join(WORDS), "w1"])
    assert (long.windows, long.truncated, short.truncated) == (1, True, False)
    assert long.to_dict()["truncated"] is True
    assert "truncated" not in short.to_dict()
    # What was dropped has no say.
    again = classifier.classify(" ".join([*WORDS, "w3", "w4"]))
    assert again.scores == pytest.approx(long.scores, abs=1e-6)
    assert "its first tokens" in task.reading_notes([long, short])[0]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: Windows(keep="first", keep_first=3),
            "keep_first is 3; `keep` is 'first', and it has an effect only with 'both'; leave one "
            "of them out.",
        ),
        (
            lambda: Windows(keep="last", step=3),
            "step is 3; `keep` is 'last', and one window overlaps with none; leave one of them "
            "out.",
        ),
        (
            lambda: read(" ".join(WORDS), Windows(length=12, keep="both", keep_first=11)),
            "windows.keep_first is 11; a window has room for 10 tokens of text; lower it.",
        ),
        (
            lambda: Tag(labels=("O", "B-A", "I-A"), windows=Windows(keep="first")),
            "windows.keep is 'first'; every word needs a tag; leave it out.",
        ),
        (
            lambda: Answer(windows=Windows(keep="last")),
            "windows.keep is 'last'; an answer may stand anywhere in its context; leave it out.",
        ),
    ],
)
def test_settings_that_cannot_be(make, sentence):
    with pytest.raises(SettingError) as error:
        make()
    assert str(error.value) == sentence


def test_what_windows_cost_is_said_before_training(model):
    items = [TextItem(" ".join(WORDS), "a"), TextItem("w1", "b")] * 3
    task = Classify(labels=("a", "b"))
    windows = task.windows_of(items, TOKENIZER, 20)
    (sentence,) = window_forecast(Prepared(task, items, items), model)
    each = (len(windows) - 3) // 3
    assert each > 1
    assert sentence.startswith(
        "3 of 6 items to learn from are longer than a window of 20 tokens: an epoch reads "
        f"{len(windows)} windows in the same number of steps, and takes about "
    )
    tokens = sum(map(len, windows))
    assert f"{tokens / (3 * 20 + 3 * len(windows[-1])):.1f} times as long" in sentence
    assert sentence.endswith("as if each were cut to one (task.windows.keep=first).")
    assert window_forecast(Prepared(task, items[1::2], []), model) == []
    cut = Classify(labels=("a", "b"), windows=Windows(keep="both", keep_first=5))
    assert window_forecast(Prepared(cut, items, []), model) == [
        "3 of 6 items to learn from are longer than a window of 20 tokens; of each is read 5 first "
        "tokens and the last ones after them."
    ]
    (sentence,) = window_forecast(Prepared(task, [items[0]] * 3000, []), model)
    assert sentence.startswith("About 3,000 of 3,000 items")
    assert f"about {1000 * (len(windows) - 3):,} windows" in sentence


def test_pairs_are_forecast_too(model):
    items = [PairItem(" ".join(WORDS), "w1", "a"), PairItem("w1", "w2", "b")]
    (sentence,) = window_forecast(Prepared(Compare(labels=("a", "b")), items, []), model)
    assert sentence.startswith("1 of 2 items to learn from are longer")
