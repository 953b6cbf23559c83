"""Adapters both ways: PEFT computes what we merged, and we merge what PEFT wrote."""

import pytest
import torch
import transformers

import clozeworks as cw
from clozeworks.checkpoints.adapters import load_adapter, write_adapter
from clozeworks.compress.lora import Lora, adapted, add_lora, merge_lora
from clozeworks.core.layout import Layout
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.tag import Tag
from clozeworks.text.training.train import train_from_iterator

peft = pytest.importorskip("peft")
pytestmark = pytest.mark.parity

SMALL = {
    "albert": (
        "albert-base-v1",
        {
            "hidden_size": 32,
            "embedding_size": 20,
            "num_hidden_layers": 4,
            "num_hidden_groups": 2,
            "num_attention_heads": 2,
            "intermediate_size": 48,
        },
    ),
    "bert": (
        "bert-tiny",
        {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48},
    ),
    "roberta": (
        "roberta-base",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 48,
        },
    ),
    "distilbert": ("distilbert-base", {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48}),
    "electra": (
        "electra-small",
        {
            "hidden_size": 32,
            "embedding_size": 20,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 48,
        },
    ),
}
TASKS = {
    "classes": (Classify(labels=("a", "b", "c")), "AutoModelForSequenceClassification", 3),
    "tags": (Tag(labels=("O", "B-A", "I-A")), "AutoModelForTokenClassification", 3),
    "answer": (Answer(), "AutoModelForQuestionAnswering", 2),
}
HEADS = {"classes": "classes", "tags": "tokens", "answer": "answer"}
TARGETS = {"attention": ("query", "value"), "down": ("down", "key")}
IDS = torch.tensor([5, 9, 14, 21, 30, 7])

families = pytest.mark.parametrize("family", SMALL)
tasks = pytest.mark.parametrize("name", TASKS)


def base(family):
    size, changes = SMALL[family]
    kinds = {"albert": ("unigram", 60), "roberta": ("bpe", 300)}
    kind, entries = kinds.get(family, ("wordpiece", 80))
    tokenizer = train_from_iterator(["the fox ran from York"] * 5, kind=kind, size=entries)
    return cw.new(size, tokenizer, initializer_range=0.3, **changes)


def stir(parameters, seed=5):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in parameters:
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)


def ours(model, name):
    layout = Layout([len(IDS)])
    with torch.no_grad():
        return model.model.head(HEADS[name]).logits(model.model(IDS, layout), layout)


def theirs(model, name):
    with torch.no_grad():
        found = model.eval()(input_ids=IDS[None])
    if name == "answer":
        return torch.stack([found.start_logits[0], found.end_logits[0]], dim=1)
    return found.logits[0] if name == "tags" else found.logits


def peer(folder, name):
    _, auto, count = TASKS[name]
    return getattr(transformers, auto).from_pretrained(folder, num_labels=count)


@families
@tasks
@pytest.mark.parametrize("targets", TARGETS)
def test_peft_computes_what_we_merged(tmp_path, family, name, targets):
    start = base(family)
    start.save(tmp_path / "base")
    made = start.for_task(TASKS[name][0], seed=2)
    lora = Lora(rank=4, alpha=6.0, targets=TARGETS[targets])
    add_lora(made.model, lora)
    stir(parameter for parameter in made.model.parameters() if parameter.requires_grad)
    pairs = {n: (m.lora_a.detach(), m.lora_b.detach()) for n, m in adapted(made.model).items()}
    merge_lora(made.model.eval())
    write_adapter(
        made.checkpoint,
        tmp_path / "adapter",
        pairs,
        alpha=6.0,
        dropout=0.0,
        base=str(tmp_path / "base"),
    )
    bare = peer(tmp_path / "base", name)
    loaded = peft.PeftModel.from_pretrained(bare, tmp_path / "adapter")
    count = sum("lora_A" in n for n, _ in loaded.named_parameters())
    assert count == len(pairs)
    expected = ours(made, name)
    torch.testing.assert_close(theirs(loaded, name), expected, rtol=0, atol=1e-5)
    merged = loaded.merge_and_unload()
    torch.testing.assert_close(theirs(merged, name), expected, rtol=0, atol=1e-5)
    assert (expected - ours(start.for_task(TASKS[name][0], seed=2), name)).abs().max() > 0.01


@families
@tasks
def test_we_merge_what_peft_wrote(tmp_path, family, name):
    task, _, _ = TASKS[name]
    start = base(family).for_task(task, seed=2)
    start.save(tmp_path / "base")
    own = {"albert": ["query", "ffn_output"], "distilbert": ["q_lin", "lin2"]}
    targets = own.get(family, ["query", "intermediate.dense"])
    kind = {"classes": "SEQ_CLS", "tags": "TOKEN_CLS", "answer": "QUESTION_ANS"}[name]
    settings = peft.LoraConfig(r=3, lora_alpha=12, target_modules=targets, task_type=kind)
    model = peft.get_peft_model(peer(tmp_path / "base", name), settings)
    stir(parameter for parameter in model.parameters() if parameter.requires_grad)
    model.save_pretrained(tmp_path / "adapter")
    loaded = cw.load(tmp_path / "base")
    before = ours(loaded, name)
    load_adapter(loaded, tmp_path / "adapter")
    torch.testing.assert_close(ours(loaded, name), theirs(model, name), rtol=0, atol=1e-5)
    assert (ours(loaded, name) - before).abs().max() > 0.01
