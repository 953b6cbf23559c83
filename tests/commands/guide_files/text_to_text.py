"""Mails with their subjects, sentences with a label, short chats, a tiny T5 and a tiny GPT-2."""

import json

import clozeworks as cw
from clozeworks.text.tokenizer.styles import GPT2_STYLE, T5_STYLE
from clozeworks.text.training.train import train_from_iterator

SHORT = {
    "finetune": (
        "training.epochs=2",
        "training.batch_size=8",
        "training.learning_rate=0.01",
        "evaluation.per_epoch=1",
    )
}
WORDS = {
    "en": (
        "Dear all, the {what} on {day} is moved to room {room}.",
        "{what} moved to room {room}",
        ("meeting", "lunch", "talk", "party"),
        ("Monday", "Tuesday", "Friday"),
        "Where is the {what}?",
        "In room {room}.",
    ),
    "zh": (
        "各位好，{day}的{what}改到{room}号会议室。",
        "{what}改到{room}号会议室",
        ("会议", "午餐", "讲座", "聚会"),
        ("周一", "周二", "周五"),
        "{what}在哪里？",
        "在{room}号会议室。",
    ),
}


def rows(language):
    """Mails, and chats about the same."""
    mail, subject, whats, days, question, answer = WORDS[language]
    for number in range(60):
        told = {
            "what": whats[number % 4],
            "day": days[number % 3],
            "room": str(1 + number % 20),
        }
        yield (
            {"source": mail.format(**told), "target": subject.format(**told)},
            {
                "messages": [
                    {"role": "user", "content": mail.format(**told) + question.format(**told)},
                    {"role": "assistant", "content": answer.format(**told)},
                ]
            },
        )


def prepare(folder, language):
    made = list(rows(language))
    for name, place in (("mails", 0), ("chats", 1)):
        lines = [json.dumps(pair[place], ensure_ascii=False) + "\n" for pair in made]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    sentences = [f"{number % 2}\t{mail['source']}" for number, (mail, _) in enumerate(made)]
    table = "\n".join(["label\tsentence", *sentences]) + "\n"
    (folder / "sentences.tsv").write_text(table, encoding="utf-8")
    texts = [text for mail, _ in made for text in mail.values()]
    texts += [turn["content"] for _, chat in made for turn in chat["messages"]]
    texts += ["summarize: cola sentence: acceptable unacceptable user: assistant: \n"] * 5
    t5 = train_from_iterator(texts, kind="unigram", size=300, style=T5_STYLE)
    shape = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4}
    t5_model = cw.new("t5-small", t5, heads=["decoder", "vocabulary"], **shape)
    t5_model.save(folder / "model")
    gpt2 = train_from_iterator(texts, kind="bpe", size=500, style=GPT2_STYLE)
    small = {"n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 160}
    cw.new("gpt2", gpt2, heads=["vocabulary"], **small).save(folder / "decoder")


def followed(folder, names):
    said = [json.loads(line) for line in (folder / "said.jsonl").open(encoding="utf-8")]
    assert len(said) == 6
    assert all({"source", "text", "score", "ended"} <= each.keys() for each in said)
    assert cw.load(folder / "mails" / "model").task.prefix == "summarize: "
    assert cw.load(folder / "continued" / "model").task.between == "\n"
    values = json.loads((folder / "several" / "metrics.json").read_text())["seeds"]["0"]["values"]
    assert {"mean", "sentences matthews", "train chrf"} <= values.keys()
    assert names["chat"].tokenizer.has_chat_template
