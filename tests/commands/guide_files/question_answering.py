"""Made-up towns and questions about them: SQuAD's layout, flat rows, and questions in vain."""

import json

import clozeworks as cw
from clozeworks.text.training.train import train_from_iterator

SHORT = {
    "finetune": (
        "training.epochs=12",
        "training.batch_size=4",
        "training.learning_rate=0.002",
        "data.dev_fraction=0.25",
        "evaluation.per_epoch=1",
    )
}
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
# A context with holes, and questions with the hole that answers them; None: nothing does.
TOWNS = {
    "en": (
        "{name} was founded in {year}. Its oldest bridge crosses the {river}. Most people there "
        "work in {work}.",
        (
            ("When was {name} founded?", "year"),
            ("Which river does the oldest bridge cross?", "river"),
            ("Who designed the bridge of {name}?", None),
        ),
        {
            "name": ("Hollin", "Marsby", "Old Fen", "Port Ash", "Selwick", "Tarn", "Upwell", "Wye"),
            "year": ("1204", "1350", "1412", "1599", "1622", "1703", "1811", "1890"),
            "river": ("Ebb", "Long Water", "Rill", "Sow"),
            "work": ("weaving", "fishing", "the salt mines", "paper mills"),
        },
    ),
    "zh": (
        "{name}建于{year}年。镇上最老的桥横跨{river}。那里的人大多以{work}为生。",
        (
            ("{name}建于哪一年？", "year"),
            ("最老的桥横跨哪条河？", "river"),
            ("{name}的桥是谁设计的？", None),
        ),
        {
            "name": ("青石镇", "柳湾", "白鹭洲", "南坪", "古渡", "云水镇", "松岭", "石门"),
            "year": ("1204", "1350", "1412", "1599", "1622", "1703", "1811", "1890"),
            "river": ("清河", "长水", "小月溪", "沙江"),
            "work": ("织布", "打鱼", "晒盐", "造纸"),
        },
    ),
}


def towns(language):
    """Contexts with their questions and answers; each kind of town twice, with other work."""
    pattern, questions, words = TOWNS[language]
    for number in range(16):
        chosen = {
            role: each[(number + (number // 8) * (role != "name")) % len(each)]
            for role, each in words.items()
        }
        yield (
            pattern.format(**chosen),
            [(question.format(**chosen), chosen.get(hole, "")) for question, hole in questions],
        )


def squad(known):
    paragraphs = []
    for number, (context, asked) in enumerate(known):
        questions = [
            {
                "id": f"{number}-{place}",
                "question": question,
                "answers": [{"text": answer, "answer_start": context.index(answer)}],
            }
            for place, (question, answer) in enumerate(asked)
            if answer
        ]
        paragraphs.append({"context": context, "qas": questions})
    return {"version": "1.1", "data": [{"title": "towns", "paragraphs": paragraphs}]}


def flat(known):
    return [
        {
            "question": question,
            "context": context,
            "answers": [answer] if answer else [],
            "is_impossible": not answer,
        }
        for context, asked in known
        for question, answer in asked
    ]


def prepare(folder, language):
    known = list(towns(language))
    texts = [text for context, asked in known for text in (context, *(each[0] for each in asked))]
    tokenizer = train_from_iterator(texts, kind="wordpiece", size=400)
    cw.new("bert-tiny", tokenizer, **SMALL).save(folder / "model")
    for name, part in (("questions", known[:12]), ("test", known[12:])):
        text = json.dumps(squad(part), ensure_ascii=False)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    for name, part in (("unsure", known[:12]), ("unsure-test", known[12:])):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in flat(part))
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    chronicle = "\n".join([*(context for context, _ in known)] * 4)
    (folder / "chronicle.txt").write_text(chronicle, encoding="utf-8")


def followed(folder, names):
    contexts = {}
    for paragraph in json.loads((folder / "test.json").read_text(encoding="utf-8"))["data"][0][
        "paragraphs"
    ]:
        contexts |= {each["id"]: paragraph["context"] for each in paragraph["qas"]}
    said = [json.loads(line) for line in (folder / "said.jsonl").open(encoding="utf-8")]
    assert {each["id"] for each in said} == contexts.keys()
    for each in said:
        assert each["answer"]
        for found in each["candidates"]:
            text = contexts[each["id"]][found["begin"] : found["end"]]
            assert text == found["text"]
    chronicle, long = names["chronicle"], names["long"]
    assert long.windows > 1 and chronicle[long.begin : long.end] == long.text
    # A higher threshold never makes more questions go without an answer.
    silent = [sum(not answer.text for answer in each) for each in names["by_threshold"]]
    assert silent == sorted(silent, reverse=True) and silent[0] == 3 and silent[-1] == 0
    task = cw.load(folder / "unsure" / "model").task
    assert task.threshold is not None
    assert cw.load(folder / "answers" / "model").task.threshold is None
