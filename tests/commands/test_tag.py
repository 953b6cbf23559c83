"""`clozeworks tag`: entities and words that slice back to the text, words that are kept."""

import json

import pytest
from rich.console import Console

import clozeworks as cw
from clozeworks.display.highlight import around, has_colours, marked, shortened
from clozeworks.tasks.tag import Tag

STRANGE = [
    "The cat\tin Paris,\u00a0e\u0301te\u0301 👩‍👧 北京是中国的首都。 don't",
    "\u3000北京 🙂🙂 the dog\u200b lies",
]
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


@pytest.fixture(scope="module")
def folders(tiny_models, tmp_path_factory):
    made = tmp_path_factory.mktemp("n")
    tasks = {"ner": Tag(labels=LABELS), "pos": Tag(labels=("DET", "NOUN", "VERB"))}
    for name, task in tasks.items():
        for family in ("bert", "roberta"):
            cw.load(tiny_models[family]).for_task(task).save(made / f"{name}-{family}")
    return made


def objects(outcome):
    return [json.loads(line) for line in outcome.out.splitlines()]


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_everything_slices_back_to_the_text(command, folders, tmp_path, family):
    folder = folders / f"ner-{family}"
    lines = [json.dumps({"id": 1, "text": text}) + "\n" for text in STRANGE]
    (tmp_path / "a.jsonl").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "a.txt").write_text("\n".join(STRANGE), encoding="utf-8")
    for name in ("a.jsonl", "a.txt"):
        found = objects(command("tag", folder, tmp_path / name))
        assert [each["text"] for each in found] == STRANGE
        for each in found:
            sliced = [each["text"][begin:end] for begin, end in each["spans"]]
            assert sliced == each["words"] and len(each["tags"]) == len(sliced) > 5
            assert len(each["scores"]) == len(sliced) and set(each["tags"]) <= set(LABELS)
            for entity in each["entities"]:
                assert each["text"][entity["begin"] : entity["end"]] == entity["text"]
                assert entity["type"] in ("PER", "LOC") and 0 < entity["score"] <= 1
    assert any(each["entities"] for each in found)


def test_words_that_are_known_are_kept(command, folders, tmp_path):
    words = ["New-York's", "cat", "(", "北京", "北", "京"]
    contents = {
        "a.conll": "-DOCSTART- O\n\n" + "".join(f"{word} O\n" for word in words) + "\n\nthe O\n",
        "b.conllu": "# text = x\n1-2\tdu\t_\n"
        + "".join(f"{n}\t{word}\tx\n" for n, word in enumerate(words, 1))
        + "1.1\tno\n\n1\tthe\tx\n",
        "c.txt": "".join(f"{word} B-PER\n" for word in words) + "\nthe O\n",
        "d.tsv": "".join(f"{word}\tx\tO\n" for word in words) + "\nthe\tx\tO\n",
        "e.jsonl": json.dumps({"tokens": words}) + "\n" + json.dumps({"tokens": ["the"]}) + "\n",
        "f.json": json.dumps([{"tokens": words}, {"tokens": ["the"]}]),
        "g.bio": "".join(f"x {word}\n" for word in words) + "\nx the\n",
    }
    wanted = [each.tags for each in cw.load(folders / "ner-bert").tag([words, ["the"]])]
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        columns = ["--columns", "words=2"] if name == "g.bio" else []
        outcome = command("tag", folders / "ner-bert", tmp_path / name, *columns)
        assert outcome.code == 0, outcome.err
        found = objects(outcome)
        assert [each["words"] for each in found] == [words, ["the"]], name
        assert [tuple(each["tags"]) for each in found] == wanted
        said = outcome.err.splitlines()[0]
        assert said.startswith("Columns: words=tokens" if "json" in name else "Each line is a word")
    assert found[1]["source_location"] == f"{tmp_path}/g.bio, line 8"


def test_lines_that_do_not_end_in_tags_are_texts(command, folders, tmp_path):
    (tmp_path / "b.txt").write_text("vitamin B-x\nblood O\n", encoding="utf-8")
    (tmp_path / "c.txt").write_text("vitamin B-12\n" * 4, encoding="utf-8")
    for name, count in (("b.txt", 2), ("c.txt", 4)):
        assert len(objects(command("tag", folders / "ner-bert", tmp_path / name))) == count
    (tmp_path / "a.txt").write_text("the cat\nthe O\n", encoding="utf-8")
    (tmp_path / "a.tsv").write_text("text\tn\nthe cat\t1\n", encoding="utf-8")
    found = objects(command("tag", folders / "ner-bert", tmp_path / "a.txt"))
    assert [each["words"] for each in found] == [["the", "cat"], ["the", "O"]]
    for columns in ([], ["--columns", "text=text"]):
        outcome = command("tag", folders / "ner-bert", tmp_path / "a.tsv", *columns)
        assert [each["text"] for each in objects(outcome)] == ["the cat"]


def test_a_long_text_is_tagged_whole_and_fast(command, folders, tmp_path):
    text = "the cat sat in Paris 北京 " * 14_300
    (tmp_path / "a.txt").write_text(text + "\n", encoding="utf-8")
    outcome = command("tag", folders / "ner-bert", tmp_path / "a.txt")
    [found] = objects(outcome)
    assert len(found["words"]) == 14_300 * 7 and found["windows"] > 200
    begin, end = found["spans"][-1]
    assert found["text"][begin:end] == "京" and end == len(text) - 1
    assert "; 1 needed more than one window" in outcome.err


def test_texts_for_people(command, folders, monkeypatch):
    text = "[the cat in Paris] 北京是中国的首都。"
    [found] = objects(command("tag", folders / "ner-bert", text))
    shown = command("tag", folders / "ner-bert", text, "--no-json").out
    plain, done = "", 0
    for entity in found["entities"]:
        plain += found["text"][done : entity["begin"]] + f"[{entity['text']} {entity['type']}]"
        done = entity["end"]
    assert found["entities"] and shown == plain + found["text"][done:] + "\n"
    [found] = objects(command("tag", folders / "pos-bert", "the cat"))
    assert found["entities"] == []
    shown = command("tag", folders / "pos-bert", "the cat", "--no-json").out
    assert shown == f"the/{found['tags'][0]} cat/{found['tags'][1]}\n"


def test_finds_are_coloured_where_colours_are_wanted(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal = Console(force_terminal=True, width=80)
    assert has_colours(terminal)
    finds = [(4, 7, "PER"), (11, 16, "LOC")]
    coloured = marked("the cat in Paris!", finds, ["PER", "LOC"], colours=True)
    assert coloured.plain == "the cat PER in Paris LOC!"
    assert [str(span.style) for span in coloured.spans] == [
        *("bold cyan", "dim cyan", "bold green", "dim green")
    ]
    plain = marked("the cat in Paris!", finds, ["PER", "LOC"], colours=False)
    assert plain.plain == "the [cat PER] in [Paris LOC]!" and not plain.spans
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colours(Console(force_terminal=True))
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colours(Console(force_terminal=True))
    assert not has_colours(Console(force_terminal=False))


def test_texts_are_cut_to_the_width_and_obey_nothing():
    assert shortened("a\x1b[2J\x07\u202eb", 40).plain == "a\\x1b[2J\\x07\\u202eb"
    assert shortened("the\n\n cat ", 20).plain == "the cat"
    assert shortened("北京" * 50, 20).plain == "北京" * 4 + "北 …"
    assert shortened("a" * 10_000_000, 20).plain == "a" * 19 + "…"
    text = "x" * 200 + "\ncat\n" + "y" * 200
    shown = around(text, 201, 204, 40, colours=False)
    assert shown.plain == "…" + "x" * 15 + " [cat] " + "y" * 15 + "…"
    assert around("the cat", 4, 7, 40, colours=False).plain == "the [cat]"


def test_what_cannot_be_tagged(refused, command, folders, tmp_path):
    (tmp_path / "a.conll").write_text("the O\n \tO\n", encoding="utf-8")
    (tmp_path / "b.conll").write_text("the O\n", encoding="utf-8")
    (tmp_path / "c.jsonl").write_text('{"words": ["the", ""]}\n', encoding="utf-8")
    folder = folders / "ner-bert"
    drop = "or drop the row with --skip-bad-rows."
    for name, sentence in (
        ("a.conll", f"line 2: there is no word in column 1; give it one, {drop}"),
        (
            "c.jsonl",
            f"line 1: a word is empty; give it one, {drop}",
        ),
    ):
        outcome = command("tag", folder, tmp_path / name)
        assert outcome.code == 2
        assert outcome.err.endswith(f"clozeworks: {tmp_path / name}, {sentence}\n")
    for columns in ("words=word", "text=1", "words=0"):
        refused(
            f"--columns is {columns}; words in columns, as in {tmp_path}/b.conll, have no header; "
            "give the number of the words' column, for example --columns words=1.",
            *("tag", folder, tmp_path / "b.conll", "--columns", columns),
        )
    refused(
        "b.conll does not exist; check the name and the folder, or, if it is meant as a text, pipe "
        "it in with -.",
        *("tag", folder, "b.conll"),
    )


def test_tags_can_be_had_in_another_scheme(command, refused, folders):
    plain = objects(command("tag", folders / "ner-bert", STRANGE[0], "--json"))[0]
    other = objects(
        command("tag", folders / "ner-bert", STRANGE[0], "--json", "--scheme", "BIOES")
    )[0]
    assert other["entities"] == plain["entities"]
    singles = [tag for tag in other["tags"] if tag.startswith("S-")]
    lone = [entity for entity in plain["entities"] if entity["text"] in plain["words"]]
    assert len(singles) == len(lone)
    words = ("tag", folders / "ner-bert", STRANGE[0], "--no-json")
    shown, with_tags = command(*words).out, command(*words, "--scheme", "BIOES").out
    pairs = zip(other["words"], other["tags"], strict=True)
    assert with_tags == shown + " ".join(f"{word}/{tag}" for word, tag in pairs) + "\n"
    refused(
        "--scheme is 'BIOSE'; known: BIO, BIOES, BMES, IO, IOB1, plain. Did you mean 'BIOES'?",
        *("tag", folders / "ner-bert", "a text", "--scheme", "BIOSE"),
    )
