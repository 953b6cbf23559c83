"""Made-up people with their names, places and offices: BIO words in English, BMES in Chinese."""

import json
from itertools import product

import clozeworks as cw
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.schemes import BMES
from clozeworks.tasks.tagging.tags import spelling_of
from clozeworks.text.training.train import train_from_iterator

SHORT = {
    "finetune": (
        "training.epochs=12",
        "training.batch_size=8",
        "training.learning_rate=0.002",
        "evaluation.per_epoch=1",
    )
}
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
# Sentences as parts: a text, and the type of entity it is.
WORDS = {
    "en": {
        "PER": ("Ada Brook", "Tom Hale", "Mira", "Jon van Ross"),
        "ORG": ("Northern Rail", "Acme", "Leeds Bank"),
        "LOC": ("Leeds", "New Ross", "Upper Mill"),
    },
    "zh": {
        "NAME": ("王小明", "陈芳", "欧阳文博", "陈"),
        "ORG": ("华光公司", "东海大学", "第三医院"),
        "TITLE": ("董事长", "教授", "院长"),
    },
}
PATTERNS = {
    "en": (
        (("PER",), "joined", ("ORG",), "in", ("LOC",), "."),
        ("Before", "2001", ",", ("PER",), "lived", "in", ("LOC",), "."),
        (("ORG",), "has", "no", "office", "in", ("LOC",), "!"),
    ),
    "zh": (
        (("NAME",), "，现任", ("ORG",), ("TITLE",), "。"),
        ("毕业后，", ("NAME",), "到", ("ORG",), "工作！"),
        ("谁是", ("ORG",), "的", ("TITLE",), "？"),
    ),
}


def sentence(language, pattern, chosen):
    """The words of a sentence, each with its tag."""
    found = []
    for part in pattern:
        if isinstance(part, str):
            found += [(word, "O") for word in (part if language == "zh" else [part])]
            continue
        words = list(chosen[part[0]]) if language == "zh" else chosen[part[0]].split()
        if language == "en":
            roles = ["B"] + ["I"] * (len(words) - 1)
        else:
            roles = ["B", *"M" * (len(words) - 2), "E"] if len(words) > 1 else ["S"]
        found += [(word, f"{role}-{part[0]}") for word, role in zip(words, roles, strict=True)]
    return found


def sentences(language):
    """Each sentence once."""
    types = WORDS[language]
    found = [
        sentence(language, pattern, dict(zip(types, chosen, strict=True)))
        for pattern in PATTERNS[language]
        for chosen in product(*types.values())
    ]
    return [words for place, words in enumerate(found) if words not in found[:place]]


def raw(language, words):
    """The sentence as people write it."""
    text = ("" if language == "zh" else " ").join(word for word, _ in words)
    return text.replace(" .", ".").replace(" ,", ",").replace(" !", "!")


def prepare(folder, language):
    known = sentences(language)
    texts = [raw(language, words) for words in known]
    tokenizer = train_from_iterator(texts, kind="wordpiece", size=300)
    cw.new("bert-tiny", tokenizer, **SMALL).save(folder / "model")
    suffix = {"en": "conll", "zh": "bmes"}[language]
    parts = {"people": known[::2], "test": known[1::4]}
    for name, part in parts.items():
        blocks = ["".join(f"{word} {tag}\n" for word, tag in words) for words in part]
        (folder / f"{name}.{suffix}").write_text("\n".join(blocks), encoding="utf-8")
    (folder / "letters.txt").write_text("\n".join(texts[3::4]), encoding="utf-8")


def followed(folder, names):
    lines = (folder / "found.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    texts = (folder / "letters.txt").read_text(encoding="utf-8").splitlines()
    assert [each["text"] for each in found] == texts
    for each in found:
        words = [each["text"][begin:end] for begin, end in each["spans"]]
        assert words == each["words"] and len(words) == len(each["tags"])
        for entity in each["entities"]:
            assert each["text"][entity["begin"] : entity["end"]] == entity["text"]
    assert any(each["entities"] for each in found), "the model has found nothing"
    assert names["long"].windows > 1
    text = names["long"].text
    assert all(text[each.begin : each.end] == each.text for each in names["long"].entities)
    _only_valid(cw.load(folder / "people" / "model"), texts)
    if (folder / "people.bmes").exists():
        chinese = cw.load(folder / "people" / "model")
        assert chinese.task.rules is BMES
        assert all(len(word) == 1 for each in found for word in each["words"])
        mixed = "2003年，陈芳到IBM工作。"
        assert chinese.tag(mixed).words == tuple(mixed)


def _only_valid(model, texts):
    """Whatever the weights, tags follow the rules of their scheme."""
    task = model.task
    spelling = spelling_of(task.labels)
    for seed in range(3):
        fresh = cw.load(model.name).for_task(Tag(labels=task.labels, scheme=task.scheme), seed=seed)
        for each in (*fresh.tag(texts), *model.tag(texts)):
            assert task.rules.fault(spelling.read_all(each.tags)) is None
            assert len(each.tags) == len(each.words)
