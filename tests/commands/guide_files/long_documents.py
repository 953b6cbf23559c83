"""Texts longer than a window: reports with labels, letters with entities, leases with answers."""

import json

import clozeworks as cw
from clozeworks.data.corpus.build import BuildSettings, build_corpus
from clozeworks.text.training.train import train_from_iterator

SHORT = {
    "pretrain": (
        "training.steps=10",
        "training.batch_tokens=1024",
        "training.schedule.warmup_steps=1",
        "evaluation.tokens=1024",
        "model.config={hidden_size = 32, num_attention_heads = 2, intermediate_size = 64}",
    ),
    "finetune": ("training.epochs=1",),
}
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
FILLER = {
    "en": "The lease of the old mill began in May and ends in June. Report {} says all is well. ",
    "zh": "老磨坊的租约从五月开始，六月结束。第{}份报告说一切正常！还要续租吗？",
}
VERDICTS = {
    "en": ("The roof is sound. ", "The roof is broken. "),
    "zh": ("屋顶完好。", "屋顶坏了！"),
}
LABELS = {"en": ("pass", "fail"), "zh": ("合格", "不合格")}
WHO = {"en": ("Anna Reed", "signed the lease."), "zh": ("王安娜", "签了租约。")}
QUESTION = {"en": "Who signed the lease?", "zh": "谁签了租约？"}


def report(language, number):
    """A long text, its label, and where somebody signs in it."""
    filler = FILLER[language].format(number)
    kind = number % 2
    who, signed = WHO[language]
    name = f"{who} " if language == "en" else who
    text = filler * 4 + VERDICTS[language][kind] + name + signed + filler * (2 + number % 3)
    return text.strip(), LABELS[language][kind], text.index(who)


def columns(language, number):
    """A long sentence in columns: a word and its tag in each line."""
    text, _, begin = report(language, number)
    end = begin + len(WHO[language][0])
    if language == "zh":
        spans = [(place, place + 1) for place in range(len(text))]
    else:
        spans, place = [], 0
        for word in text.split():
            spans.append((place, place + len(word)))
            place += len(word) + 1
    lines = []
    for first, last in spans:
        inside = begin <= first < end
        tag = ("B-PER" if first == begin else "I-PER") if inside else "O"
        lines.append(f"{text[first:last]} {tag}")
    return "\n".join(lines) + "\n"


def prepare(folder, language):
    reports = [report(language, number) for number in range(24)]
    texts = [text for text, _, _ in reports]
    tokenizer = train_from_iterator(texts, kind="wordpiece", size=300)
    cw.new("bert-tiny", tokenizer, **SMALL).save(folder / "model")
    rows = [f"{text},{label}" for text, label, _ in reports]
    (folder / "reports.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    (folder / "new.csv").write_text("\n".join(["text", *texts[:6]]), encoding="utf-8")
    found = "\n".join(columns(language, number) for number in range(12))
    (folder / "entities.conll").write_text(found, encoding="utf-8")
    (folder / "letters.txt").write_text("\n".join(texts[:3]), encoding="utf-8")
    (folder / "lease.txt").write_text(texts[0], encoding="utf-8")
    questions = [
        json.dumps(
            {
                "question": QUESTION[language],
                "context": text,
                "answers": {"text": [WHO[language][0]], "answer_start": [begin]},
            },
            ensure_ascii=False,
        )
        for text, _, begin in reports
    ]
    (folder / "questions.jsonl").write_text("\n".join(questions), encoding="utf-8")
    documents = [FILLER[language].format(number) * 12 for number in range(60)]
    (folder / "texts.txt").write_text("\n\n".join(documents), encoding="utf-8")
    settings = BuildSettings(validation=0.1)
    build_corpus([folder / "texts.txt"], folder / "corpus", tokenizer, settings, workers=1)


def followed(folder, names):
    text, windows, owner = names["text"], names["windows"], names["owner"]
    assert len(windows) > 2 and sorted(set(owner.tolist())) == list(range(len(windows)))
    covered = [False] * len(text)
    for window in windows:
        assert len(window) <= 64
        for begin, end in window.encoded.offsets[window.moving]:
            covered[begin:end] = [True] * (end - begin)
    assert all(seen or character.isspace() for seen, character in zip(covered, text, strict=True))
    answers = read(folder / "answers.jsonl")
    assert len(answers) == 6 and all(answer["windows"] > 1 for answer in answers)
    tagged, answered = names["tagged"], names["answered"]
    assert tagged.windows > 2 and "".join(tagged.words) == "".join(text.split())
    for letter in read(folder / "entities.jsonl"):
        assert letter["windows"] > 2
        for entity in letter["entities"]:
            assert letter["text"][entity["begin"] : entity["end"]] == entity["text"]
    assert answered.windows > 2
    assert text[answered.begin : answered.end] == answered.text != ""


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
