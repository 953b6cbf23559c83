"""The way of a Chinese text through all commands, simplified and traditional, with a tiny model."""

import contextlib
import csv
import io
import json
from itertools import accumulate, product

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.cli import main
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.data.examples.loader import Loader
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.published import written
from clozeworks.text.tokenizer.tokenizer import Tokenizer

# In each script: who, with what they do; when; what is said of it, in sentences.
SCRIPTS = {
    "simplified": (
        {"学生": "图书馆学习", "医生": "医院看病", "老师": "教室讲课", "厨师": "厨房做饭"},
        ("早上", "中午", "晚上"),
        ("他说：“我爱学习！”", "大家很高兴。", "你爱练习吗？我爱。"),
    ),
    "traditional": (
        {"學生": "圖書館學習", "醫生": "醫院看病", "老師": "教室講課", "廚師": "廚房做飯"},
        ("早上", "中午", "晚上"),
        ("他說：「我愛學習！」", "大家很高興。", "你愛練習嗎？我愛。"),
    ),
}
MIXED = "昨天，张老师用BERT v2.0读完了《论语》🙂！「真好」，她說。"
SMALL = "{hidden_size = 32, num_attention_heads = 2, intermediate_size = 64}"
WHOLE_WORDS = (
    '{kind = "masked_lm", hide = {kind = "whole_words"}, '
    'examples = {kind = "full_sentences", length = 48}}'
)
RECIPE = f"""
run = "run"
objective = {WHOLE_WORDS}
[model]
start = "bert-tiny"
config = {SMALL}
[data]
corpus = "words"
[training]
steps = 8
batch_tokens = 256
learning_rate = 0.001
optimizer = {{kind = "adam_w"}}
schedule = {{kind = "constant", warmup_steps = 0}}
[evaluation]
every_steps = 0
"""


def sentences(script):
    """The sentences of each document."""
    people, times, said = SCRIPTS[script]
    for (who, does), time, what in product(people.items(), times, said):
        behind = ["你爱练习吗？", "我爱。"] if what.startswith("你爱") else [what]
        behind = ["你愛練習嗎？", "我愛。"] if what.startswith("你愛") else behind
        yield [f"{time}，{who}在{does}。", *behind]


DOCUMENTS = [document for script in SCRIPTS for document in sentences(script)]


def ran(*words):
    """Runs a command that must succeed; what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        assert main.run([str(word) for word in words]) == 0, said.getvalue()
    return said.getvalue()


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Models this small only lose by sharing their work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a text, a tokenizer, two corpora and a model that was trained a little."""
    pytest.importorskip("jieba")
    folder = tmp_path_factory.mktemp("chinese")
    text = "\n\n".join("".join(document) for document in DOCUMENTS)
    (folder / "a.txt").write_text(f"{text}\n\n{MIXED}\n\n{MIXED}\n", encoding="utf-8")
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    with contextlib.chdir(folder):
        ran("tokenizer", "train", "a.txt", "--size", 400, "--out", "tokenizer")
        build = ["corpus", "build", "a.txt", "--tokenizer", "tokenizer", "--workers", 1]
        build += ["--validation", 0]
        ran(*build, "--out", "characters")
        ran(*build, "--out", "words", "--words", "jieba")
        ran("pretrain", "recipe.toml")
    return folder


@pytest.fixture
def here(place, monkeypatch):
    """The folder, as the current one."""
    monkeypatch.chdir(place)
    return place


def objects(outcome):
    assert outcome.code == 0, outcome.err
    return [json.loads(line) for line in outcome.out.splitlines()]


def test_every_character_is_a_token(here):
    tokenizer = Tokenizer.load("tokenizer")
    for document in DOCUMENTS:
        for sentence in document:
            ids = tokenizer.encode([sentence], special=False)[0].ids
            assert [tokenizer.token_of(number) for number in ids] == list(sentence)
    pieces = [piece.removeprefix("##") for piece in tokenizer.vocabulary()]
    assert all(piece.isascii() or len(piece) == 1 for piece in pieces)
    ids = tokenizer.encode([MIXED], special=False)[0].ids
    assert tokenizer.unknown_id not in ids


@pytest.mark.parametrize("name", ["characters", "words"])
def test_sentences_end_behind_their_marks_and_what_closes(here, name):
    corpus = Corpus.open(name)
    split = corpus.split("train")
    found = []
    for begin, end in zip(split.sentence_offsets, split.sentence_offsets[1:], strict=False):
        ids, _ = split.read(int(begin), int(end))
        found.append("".join(map(corpus.tokenizer.token_of, ids.tolist())))
    wanted = [sentence for document in DOCUMENTS for sentence in document]
    assert set(wanted) <= set(found)
    assert (
        len(found) == len(wanted) + 2
    )  # `！「真好」` ends the first of MIXED's, which stands once
    assert split.documents == len(DOCUMENTS) + 1


def test_words_are_characters_or_those_of_jieba(here):
    jieba = pytest.importorskip("jieba")
    jieba.setLogLevel("ERROR")
    for name in ("characters", "words"):
        corpus = Corpus.open(name)
        split = corpus.split("train")
        for number, document in enumerate(DOCUMENTS[:3] + DOCUMENTS[36:39]):
            first = number if number < 3 else number + 33
            begin = int(split.sentence_offsets[sum(map(len, DOCUMENTS[:first]))])
            ids, starts = split.read(begin, begin + len(document[0]))
            assert "".join(map(corpus.tokenizer.token_of, ids.tolist())) == document[0]
            edges = list(accumulate(map(len, jieba.lcut(document[0])), initial=0))[:-1]
            every = list(range(len(document[0])))
            assert np.flatnonzero(starts).tolist() == (edges if name == "words" else every)


def hidden_words(folder):
    """The tokens that are hidden in some steps, and the word of every token."""
    corpus = Corpus.open(folder)
    split = corpus.split("train")
    objective = written(WHOLE_WORDS, None)
    examples = objective.chosen_examples().arrange(split, corpus.tokenizer, seed=0, cache=None)
    source = Vocabularies.of(corpus.tokenizer, split)
    loader = Loader(
        examples,
        lambda clean: (clean, objective.batch(clean, 0, source)),
        seed=0,
        batch_tokens=1024,
        workers=0,
    )
    for step in range(5):
        clean, batch = loader.batch(step)
        words = np.cumsum(clean.word_starts | clean.special)
        hidden = np.zeros(len(words), bool)
        hidden[batch.targets["masked_lm"]["positions"]] = True
        yield clean, words, hidden


def test_all_characters_of_a_word_are_hidden_or_none(here):
    together = 0
    for _, words, hidden in hidden_words("words"):
        for word in np.unique(words):
            of_it = hidden[words == word]
            assert of_it.all() or not of_it.any()
            together += len(of_it) > 1 and bool(of_it[0])
    assert together > 20


def test_without_a_segmenter_words_are_torn_apart(here):
    """The control: the same text, each character for itself."""
    corpus = Corpus.open("characters")
    library = [corpus.tokenizer.id_of(character) for character in "图书馆"]
    torn = 0
    for clean, words, hidden in hidden_words("characters"):
        assert (np.bincount(words)[1:] == 1).all()
        for begin in range(len(clean.ids) - 2):
            if clean.ids[begin : begin + 3].tolist() == library:
                torn += 0 < hidden[begin : begin + 3].sum() < 3
    assert torn


def test_a_gap_takes_a_character(here, command, refused):
    size = Tokenizer.load("tokenizer").size
    for text in ("我爱[MASK]习", "我愛[MASK]習"):
        [filled] = objects(command("fill", "run/model", text, "--json", "--top", size))
        [gap] = filled["gaps"]
        # Shares of the whole vocabulary; what special tokens have of it is nobody's.
        assert 0.5 < sum(guess["score"] for guess in gap) < 1 + 1e-4
        assert not any(guess["word"].startswith("[") for guess in gap)
        assert filled["best"] == text.replace("[MASK]", gap[0]["word"])
        alone = {guess["word"] for guess in gap if not guess["word"].isascii()}
        assert {"学", "練"} <= alone and all(len(word.strip("#")) == 1 for word in alone)
    [few] = objects(command("fill", "run/model", "我爱[MASK]习", "--json", "--words", "学,练"))
    whole = {guess["word"]: guess["score"] for guess in filled["gaps"][0]}
    assert {guess["word"] for guess in few["gaps"][0]} == {"学", "练"}
    assert 0 < sum(guess["score"] for guess in few["gaps"][0]) < 1 < len(whole)
    [two] = objects(command("fill", "run/model", "我爱[MASK][MASK]。", "--json"))
    assert len(two["gaps"]) == 2 and len(two["best"]) == len("我爱学习。")
    shown = command("fill", "run/model", "我爱[MASK]习", "--words", "学,练").out.splitlines()
    assert shown[0] in ("我爱学习", "我爱练习") and len(shown) == 3
    refused(
        "the word '学习' is not one token of this model (it would be: 学 习); a gap takes one "
        "token; choose words from the vocabulary.",
        *("fill", "run/model", "我爱[MASK]", "--words", "学习"),
    )


def test_texts_in_another_encoding_have_the_same_vectors(here, command, tmp_path):
    lines = "".join(f"{document[0]}\n" for document in DOCUMENTS)
    found = []
    for encoding in ("utf-8", "gb18030", "utf-16"):
        (tmp_path / "a.txt").write_text(lines, encoding=encoding)
        out = tmp_path / f"{encoding}.npy"
        outcome = command(
            *("embed", "run/model", tmp_path / "a.txt", "--encoding", encoding, "--out", out)
        )
        assert outcome.code == 0, outcome.err
        found.append(np.load(out))
    assert found[0].shape == (len(DOCUMENTS), 32)
    assert all(np.array_equal(found[0], other) for other in found[1:])


@pytest.fixture(scope="module")
def reviews(place):
    """The same made-up reviews in two encodings, with a header as people write it."""
    things = ("房间", "早餐", "服务", "位置", "價格", "風景")
    rows = [("内容", "标签")]
    for number in range(48):
        good = number % 2
        thing = things[number % 6]
        rows.append(
            (
                f"{thing}{'很好，满意' if good else '太差，失望'}！第{number}次，“住”过。",
                "差好"[good] + "评",
            )
        )
    for encoding in ("utf-8", "gb18030"):
        with (place / f"{encoding}.csv").open("w", encoding=encoding, newline="") as file:
            csv.writer(file).writerows(rows)
    return rows[1:]


def test_reviews_are_learned_from_either_encoding(here, command, reviews, hashes):
    for encoding, change in (("utf-8", []), ("gb18030", ["data.encoding=gb18030"])):
        said = ran(
            *("finetune", "classify", "run/model", f"{encoding}.csv", "--out", f"of-{encoding}"),
            *("training.epochs=1", *change),
        )
        assert "text=内容 (by its name), label=标签 (by its name)" in said
    first, second = (hashes(here / f"of-{name}" / "model") for name in ("utf-8", "gb18030"))
    assert first["model.safetensors"] == second["model.safetensors"]
    [found] = objects(command("classify", "of-gb18030/model", "房间很好，滿意！", "--json"))
    assert set(found["scores"]) == {"好评", "差评"}
    measured = command("evaluate", "of-utf-8/model", "gb18030.csv", "--encoding", "gb18030")
    assert measured.code == 0 and "好评" in measured.out


def test_a_file_in_another_encoding_is_refused_with_its_name(here, command, reviews):
    outcome = command("finetune", "classify", "run/model", "gb18030.csv", "--out", "refused")
    assert outcome.code == 2 and not (here / "refused").exists()
    assert "gb18030.csv, line 1: byte 0x" in outcome.err
    assert outcome.err.endswith("or say what it is with --encoding gb18030.\n")


def test_a_look_at_chinese_data(here, command, reviews, tmp_path):
    path = tmp_path / "b.csv"
    first = f"{reviews[0][0]},差评\n{reviews[0][0]},差评\n{reviews[1][0]},好评\n"
    path.write_text(f"text,label\n{first}{reviews[1][0]},差评\n價格太差,差评\n", encoding="utf-8")
    outcome = command("data", "check", path, "--task", "classify", "--tokenizer", "run/model")
    assert outcome.code == 0, outcome.err
    assert "1 row: the text stood there before, with the same label" in outcome.out
    assert "1 row: the text stood there before, with another label" in outcome.out
    assert "mostly no letters" not in outcome.out
    least = {
        line.split()[0]: float(line.split()[1])
        for line in outcome.out.splitlines()
        if line.strip().startswith(("characters", "words", "tokens "))
    }
    assert least == {"characters": 4, "words": 4, "tokens": 6}


def test_a_look_keeps_bars_in_line_and_names_the_encoding(here, command, reviews, tmp_path):
    path = tmp_path / "b.csv"
    rows = "".join(f"第{n}行，很好,{'neutral' if n % 2 else '好评'}\n" for n in range(8))
    path.write_text(f"text,label\n{rows}", encoding="gb18030")
    outcome = command("data", "check", path, "--task", "classify", "--encoding", "gb18030")
    assert "    neutral  4   50.0%" in outcome.out
    assert "    好评     4   50.0%" in outcome.out
    assert outcome.out.endswith(
        f"Train on it: clozeworks finetune classify MODEL {path} data.encoding=gb18030\n"
    )


def test_gaps_are_looked_at_and_scored(here, command, tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_text("text,label\n我爱[MASK]习。,学\n你愛[MASK]習嗎？,練\n", encoding="gb18030")
    looked = command("data", "check", path, "--task", "fill", "--encoding", "gb18030")
    asked = f"MODEL {path} --task fill --encoding gb18030"
    assert looked.out.endswith(f"Measure a model on it: clozeworks evaluate {asked}\n")
    scored = command("evaluate", "run/model", *asked.split()[1:], "--json")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out)["count"] == 2


@pytest.fixture(scope="module")
def tagger(place):
    """A model that was shown names and places, in BMES."""
    names, places = ("张三", "李小龙", "王"), ("北京", "烏魯木齊")
    lines = []
    for name, city in product(names, places):
        marks = {1: ["S"], 2: ["B", "E"], 3: ["B", "M", "E"], 4: ["B", "M", "M", "E"]}
        lines += [f"{c} {m}-PER" for c, m in zip(name, marks[len(name)], strict=True)]
        lines += ["在 O"] + [f"{c} {m}-LOC" for c, m in zip(city, marks[len(city)], strict=True)]
        lines += ["。 O", ""]
    (place / "names.bmes").write_text("\n".join(lines * 4), encoding="utf-8")
    with contextlib.chdir(place):
        ran(
            *("finetune", "tag", "run/model", "names.bmes", "--out", "tagger"),
            *("training.epochs=60", "training.learning_rate=0.003", "evaluation.per_epoch=1"),
        )
    return place / "tagger" / "model"


def test_entities_slice_back_to_the_text(here, command, tagger):
    for text in (MIXED, "\u3000张三在北京。", "李小龙（Bruce Lee）👩‍👧在烏魯木齊！？"):
        [found] = objects(command("tag", tagger, text, "--json"))
        assert found["text"] == text
        assert [text[begin:end] for begin, end in found["spans"]] == found["words"]
        assert all(len(word) == 1 or word.isascii() or "👩" in word for word in found["words"])
        assert "".join(found["words"]) == "".join(text.split())
        for entity in found["entities"]:
            assert text[entity["begin"] : entity["end"]] == entity["text"]
    [found] = objects(command("tag", tagger, "\u3000张三在北京。", "--json"))
    assert [(each["type"], each["text"], each["begin"]) for each in found["entities"]] == [
        *(("PER", "张三", 1), ("LOC", "北京", 4)),
    ]
    assert found["tags"] == ["B-PER", "E-PER", "O", "B-LOC", "E-LOC", "O"]
    [other] = objects(command("tag", tagger, "张三在北京。", "--json", "--scheme", "BIO"))
    assert other["tags"] == ["B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O"]
    shown = command("tag", tagger, "张三在北京。", "--no-json").out
    assert shown == "[张三 PER]在[北京 LOC]。\n"


def test_answers_are_measured_by_the_rule_of_cmrc(here, command, tmp_path):
    paragraphs = []
    for number, (who, city) in enumerate(product(("张三", "李四", "王五"), ("北京", "臺北"))):
        context = f"{who}住在{city}，第{number}年，他很高兴。"
        asked = {"id": f"问{number}", "question": f"{who}住在哪里？"}
        asked["answers"] = [{"text": city, "answer_start": context.index(city)}]
        paragraphs.append({"context": context, "qas": [asked]})
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs * 3}]}), encoding="utf-8")
    run = tmp_path / "answers"
    settings = ["task.rule=cmrc", "training.epochs=1"]
    said = ran("finetune", "answer", "run/model", path, "--out", run, *settings)
    assert "cmrc_f1" in said
    measured = json.loads(command("evaluate", run / "model", path, "--json").out)
    assert measured["primary"] == "cmrc_f1" and "cmrc_exact_match" in measured["values"]
    context = "張三住在臺北，他說：「很好！」🙂"
    [found] = objects(command("answer", run / "model", "張三住在哪裡？", context, "--json"))
    for each in [{**found, "text": found["answer"]}, *found["candidates"]]:
        assert context[each["begin"] : each["end"]] == each["text"] != ""


def test_the_model_is_read_from_python(here):
    model = cw.load("run/model")
    assert model.hidden_states("我爱学习").tokens == ["[CLS]", *"我爱学习", "[SEP]"]
    assert model.embed(["我爱学习", "我愛學習"]).shape == (2, 32)
