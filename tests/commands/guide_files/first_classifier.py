"""Made-up reviews, some of them twice or in contradiction, and texts that nobody has labelled."""

import csv
import json

import clozeworks as cw
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
# A pattern, what is judged, what is said of it if it is good and if it is bad, and what follows.
WORDS = {
    "en": (
        "The {} was {}, and {}.",
        ("room", "bed", "breakfast", "staff", "pool", "garden"),
        (("clean", "lovely", "perfect"), ("dirty", "awful", "broken")),
        ("we stayed two nights", "the bus stops outside", "it rained all week"),
        ("good", "bad"),
    ),
    "zh": (
        "{}{}，{}",
        ("房间", "床", "早餐", "前台", "泳池", "书桌"),
        (("很干净", "真不错", "非常好"), ("很脏", "太差了", "坏了")),
        ("我们住了两晚！", "门口就有公交站。", "那几天一直下雨。"),
        ("好评", "差评"),
    ),
}


def rows(language):
    pattern, things, judgements, endings, labels = WORDS[language]
    return [
        (pattern.format(thing, said, ending), label)
        for thing in things
        for label, sayings in zip(labels, judgements, strict=True)
        for said in sayings
        for ending in endings
    ]


def prepare(folder, language):
    known = rows(language)
    tokenizer = train_from_iterator([text for text, _ in known], kind="wordpiece", size=300)
    cw.new("bert-tiny", tokenizer, **SMALL).save(folder / "model")
    labels = WORDS[language][-1]
    labelled, rest = known[::2] + known[1::4], known[3::4]
    twice, contrary = labelled[0], (labelled[1][0], labels[labelled[1][1] == labels[0]])
    with (folder / "all.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([("text", "label"), *labelled, twice, contrary])
    texts = "".join(f"{text}\n" for text, _ in rest)
    (folder / "unlabelled.txt").write_text(texts, encoding="utf-8")


def followed(folder, names):
    tables = {}
    for name in ("train", "dev", "test"):
        with (folder / "parts" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            tables[name] = {row["text"]: row["label"] for row in csv.DictReader(file)}
    texts = [text for table in tables.values() for text in table]
    # Of what stood twice or in contradiction nothing stands in two parts.
    assert len(texts) == len(set(texts)) == 81
    assert all(len(set(table.values())) == 2 for table in tables.values())
    report = (folder / "reviews" / "report.html").read_text(encoding="utf-8")
    assert "Over 3 seeds" in report and "mean confidence" in report
    test = [json.loads(line) for line in (folder / "said.jsonl").open(encoding="utf-8")]
    assert {each["text"] for each in test} == tables["test"].keys()
    right = sum(each["label"] == each["gold"] for each in test)
    assert right > len(test) / 2, "the model has learned nothing"
    unsure = [json.loads(line) for line in (folder / "to-label.jsonl").open(encoding="utf-8")]
    assert 0 < len(unsure) <= 100 and {each["label"] for each in unsure} <= set(names["labels"])
    assert not {each["text"] for each in unsure} & set(texts)
    assert names["found"][-1].windows > 1
