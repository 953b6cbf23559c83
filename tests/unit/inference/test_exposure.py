"""Loss behind right tokens and behind own ones, checked against passes without a cache."""

import json
from math import log

import pytest
import torch

import clozeworks as cw
from clozeworks.core.layout import Layout
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.exposure import repetition
from clozeworks.text.tokenizer.styles import GPT2_STYLE
from clozeworks.text.training.train import train_from_iterator

TEXTS = [
    "The cat sat on the mat and the dog lay on the rug.",
    "A dog ran in the garden of the old house by the river, and then it sat.",
    "A long text: the city is old, the house is new, the river is long.",
]
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 60}
BYT5 = {
    "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2,
}  # fmt: skip
GIVEN, LENGTH = 4, 10


@pytest.fixture(scope="module")
def gpt2():
    tokenizer = train_from_iterator(TEXTS * 3, kind="bpe", size=300, style=GPT2_STYLE)
    return cw.new("gpt2", tokenizer, initializer_range=0.3, **GPT2)


@pytest.fixture(scope="module")
def byt5():
    return cw.new("byt5-small", heads=("decoder", "vocabulary"), **BYT5)


def last_logs(model, ids):
    with torch.no_grad():
        hidden = model.model(torch.tensor(ids), Layout([len(ids)]))[-1:]
        return model.model.heads["vocabulary"](hidden).log_softmax(dim=1)[0]


def test_by_passes_without_a_cache(gpt2):
    found = gpt2.exposure(TEXTS, given=GIVEN, length=LENGTH, greedy=True)
    told, own, written = [], [], []
    for text in TEXTS:
        ids = gpt2.tokenizer.encode([text])[0].ids
        right, mine = ids[: GIVEN + LENGTH], ids[:GIVEN]
        told.append([])
        own.append([])
        for place in range(GIVEN, GIVEN + LENGTH):
            told[-1].append(-last_logs(gpt2, right[:place])[right[place]].item())
            logs = last_logs(gpt2, mine)
            own[-1].append(-logs[right[place]].item())
            mine = [*mine, int(logs.argmax())]
        written.append(mine[GIVEN:])
        assert gpt2.tokenizer.last_id not in mine, "else this test would have to know of ends"
    for number, place in enumerate(found.positions):
        assert place.position == number + 1 and place.texts == 3
        assert place.teacher_forced == pytest.approx(sum(row[number] for row in told) / 3, abs=1e-4)
        assert place.free_running == pytest.approx(sum(row[number] for row in own) / 3, abs=1e-4)
    assert found.teacher_forced == pytest.approx(sum(map(sum, told)) / (3 * LENGTH), abs=1e-4)
    assert [each.free_running for each in found.repetition] == pytest.approx(
        [repetition(written, n) for n in (1, 2, 3, 4)]
    )
    assert found.length_ratio == 1.0 and found.ended == 0 and found.skipped == 0


def test_at_the_first_place_both_read_the_same(gpt2, byt5):
    for found in (
        gpt2.exposure(TEXTS, given=GIVEN, length=LENGTH),
        byt5.exposure(TEXTS, TEXTS[::-1], length=LENGTH),
    ):
        assert found.positions[0].teacher_forced == pytest.approx(
            found.positions[0].free_running, abs=1e-6
        )
        assert found.positions[-1].teacher_forced != pytest.approx(
            found.positions[-1].free_running, abs=1e-3
        )


def test_a_model_that_knows_nothing_loses_nothing(gpt2):
    model = cw.new("gpt2", gpt2.tokenizer, **GPT2)
    with torch.no_grad():
        for name, weight in model.model.named_parameters():
            if "encoder.norm" in name:
                weight.zero_()
    found = model.exposure(TEXTS, given=GIVEN, length=LENGTH)
    for place in found.positions:
        assert place.teacher_forced == pytest.approx(log(model.tokenizer.size), abs=1e-5)
        assert place.free_running == pytest.approx(place.teacher_forced, abs=1e-5)


def test_told_is_what_score_says(byt5, gpt2):
    answers = ["yes", "no, it is not", "perhaps"]
    found = byt5.exposure(TEXTS, answers, length=40)
    for place in found.positions[:4]:
        logs = [one.logprobs[place.position - 1] for one in byt5.score(TEXTS, answers)]
        if place.texts == 3:
            assert place.teacher_forced == pytest.approx(-sum(logs) / 3, abs=1e-4)
    ids = gpt2.tokenizer.encode([TEXTS[0]])[0].ids
    scored = gpt2.score(TEXTS[0]).logprobs[GIVEN - 1 : GIVEN - 1 + LENGTH]
    found = gpt2.exposure(TEXTS[:1], given=GIVEN, length=LENGTH)
    assert len(ids) >= GIVEN + LENGTH
    assert [place.teacher_forced for place in found.positions] == pytest.approx(
        [-one for one in scored], abs=1e-4
    )


def test_seeds_and_neighbours(gpt2):
    first = gpt2.exposure(TEXTS, given=GIVEN, length=LENGTH, seed=1)
    assert first == gpt2.exposure(TEXTS, given=GIVEN, length=LENGTH, seed=1)
    other = gpt2.exposure(TEXTS, given=GIVEN, length=LENGTH, seed=2)
    assert [place.free_running for place in first.positions[1:]] != [
        place.free_running for place in other.positions[1:]
    ]
    alone = gpt2.exposure(TEXTS[:1], given=GIVEN, length=LENGTH, seed=1)
    assert alone.positions[3].texts == 1 and first.positions[3].texts == 3


def test_texts_that_end(byt5):
    with torch.no_grad():
        byt5 = cw.new("byt5-small", heads=("decoder", "vocabulary"), seed=1, **BYT5)
        norm = byt5.model.get_parameter("decoder.norm.weight")
        norm.zero_()  # all tokens alike: one in 384 draws is the end
    found = byt5.exposure(["a"] * 60, ["b" * 50] * 60, length=50, seed=3)
    assert 0 < found.ended < 30 and found.length_ratio < 1
    counts = [place.texts for place in found.positions]
    assert counts[0] == 60 and counts == sorted(counts, reverse=True)


def test_repetition():
    assert repetition([[1, 2, 3, 4]], 1) == 0
    assert repetition([[1, 1, 1, 1]], 1) == 0.75
    assert repetition([[1, 2, 1, 2, 1]], 2) == 0.5
    assert repetition([[1, 2], [1, 2]], 2) == 0, "texts do not repeat each other"
    assert repetition([[1]], 2) == 0


def test_short_texts_are_left_out(gpt2):
    found = gpt2.exposure([*TEXTS, "A"], given=GIVEN, length=LENGTH)
    assert found.texts == 3 and found.skipped == 1


@pytest.mark.parametrize(
    ("error", "sentence", "options"),
    [
        (SettingError, "given is 0; it must be at least 1.", {"given": 0}),
        (SettingError, "length is 0; it must be at least 1.", {"length": 0}),
        (SettingError, "seed is -1; it must be at least 0 and below 2**63.", {"seed": -1}),
        (
            SettingError,
            "given is 16; with `length` 50 that is more than the 60 tokens this model takes; lower "
            "one of them.",
            {"length": 50},
        ),
        (
            InputError,
            "no text has more than the 40 tokens that are given; use longer texts, or lower given.",
            {"given": 40, "length": 10},
        ),
        (
            InputError,
            "gpt2 is a decoder, which continues texts; leave out answers.",
            {"answers": ["a"]},
        ),
    ],
)
def test_complaints(gpt2, error, sentence, options):
    with pytest.raises(error) as caught:
        gpt2.exposure(TEXTS[:1], **options)
    assert str(caught.value) == sentence


def test_complaints_about_answers(byt5):
    with pytest.raises(InputError) as caught:
        byt5.exposure(["a"])
    assert (
        str(caught.value)
        == "byt5-small is an encoder-decoder; give a reference answer for each text."
    )
    with pytest.raises(InputError) as caught:
        byt5.exposure(["a"], ["b", "c"])
    assert str(caught.value) == (
        "answers has 2 texts and texts has 1; each text needs one; give lists of equal length."
    )


class TestCommand:
    @pytest.fixture
    def folder(self, gpt2, tmp_path):
        return gpt2.save(tmp_path / "model")

    @pytest.fixture
    def texts(self, tmp_path):
        path = tmp_path / "texts.txt"
        path.write_text("\n".join([*TEXTS, "A"]) + "\n", encoding="utf-8")
        return path

    def test_tables_and_a_chart(self, command, folder, texts, tmp_path):
        chart = tmp_path / "curve.png"
        outcome = command(
            "exposure", folder, texts, "--given", 4, "--length", 10, "--chart", chart
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
        lines = outcome.out.splitlines()
        assert lines[0] == "Loss in nats a token"
        assert [line.split()[0] for line in lines[2:8]] == ["1", "2", "3–4", "5–8", "9–10", "all"]
        assert lines[2].endswith("+0.0000")
        assert "single tokens" in outcome.out and "runs of 4" in outcome.out
        assert "It writes " in outcome.out
        assert "1 text too short, left out." in outcome.err
        assert chart.read_bytes().startswith(b"\x89PNG")
        again = command("exposure", folder, texts, "--given", 4, "--length", 10, "--chart", chart)
        assert again.code == 2 and str(chart) in again.err

    def test_a_chart_that_appears_is_kept(self, command, folder, texts, tmp_path, monkeypatch):
        monkeypatch.setattr(
            "clozeworks.data.files.vectors.check_output", lambda path, **options: None
        )
        chart, place = tmp_path / "curve.png", tmp_path / "curve.2.png"
        chart.write_bytes(b"theirs")
        options = ("--given", 4, "--length", 10, "--chart", chart)
        outcome = command("exposure", folder, texts, *options)
        assert outcome.code == 2 and f"the results are in {place}" in outcome.err
        assert chart.read_bytes() == b"theirs" and place.read_bytes().startswith(b"\x89PNG")

    def test_json(self, command, folder, texts, gpt2):
        outcome = command("exposure", folder, texts, "--given", 4, "--length", 10, "--json")
        record = json.loads(outcome.out)
        found = gpt2.exposure([*TEXTS, "A"], given=4, length=10)
        assert record["teacher_forced"] == pytest.approx(found.teacher_forced)
        assert record["positions"][3]["free_running"] == pytest.approx(
            found.positions[3].free_running
        )
        assert record["repetition"][0] == pytest.approx(found.repetition[0]._asdict())
        assert record["texts"] == 3 and record["skipped"] == 1

    def test_answers_must_be_as_many(self, refused, folder, texts, tmp_path):
        short = tmp_path / "short.txt"
        short.write_text("one\n", encoding="utf-8")
        refused(
            f"{short} has 1 text and {texts} 4; each needs one answer; give as many.",
            *("exposure", folder, texts, "--answers", short),
        )
        refused(
            "--answer-column is 'a'; --answers is missing; name their file, too.",
            *("exposure", folder, texts, "--answer-column", "a"),
        )

    def test_blank_lines_may_be_left_out(self, command, refused, folder, texts):
        whole = command("exposure", folder, texts, "--given", 4, "--length", 10, "--json").out
        texts.write_text(texts.read_text(encoding="utf-8") + "\n\n", encoding="utf-8")
        options = ("--given", 4, "--length", 10, "--json", "--skip-blank")
        assert command("exposure", folder, texts, *options).out == whole
        refused(
            "--skip-blank is set; with --answers, texts and answers would no longer belong "
            "together; leave one of the two out.",
            *("exposure", folder, texts, "--skip-blank", "--answers", texts),
        )
