"""What models that write are trained on, asked of transformers too: losses and gradients."""

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers")

from clozeworks.checkpoints import folder  # noqa: E402
from clozeworks.data.examples.example_arrays import lay_out  # noqa: E402
from clozeworks.objectives.batch import Vocabularies  # noqa: E402
from clozeworks.objectives.causal_lm import CausalLM  # noqa: E402
from clozeworks.objectives.prefix_lm import PrefixLM  # noqa: E402
from clozeworks.objectives.span_corruption import SpanCorruption  # noqa: E402
from clozeworks.text.tokenizer.templates import Template  # noqa: E402
from clozeworks.text.tokenizer.tokenizer import Tokenizer  # noqa: E402

pytestmark = pytest.mark.parity

CLOSED = Template(((), (1,)), ((), (0,)), (0,))
BARE = Template(((), ()), ((), ()), (0,))
NAMED = {f"<extra_id_{number}>": 119 - number for number in range(20)}
SOURCE = Vocabularies(120, named=NAMED, start_id=0, end_id=1)
T5 = {
    "vocab_size": 120, "d_model": 24, "num_layers": 2, "num_heads": 3, "d_kv": 8, "d_ff": 32,
    "dropout_rate": 0.0, "feed_forward_proj": "gated-gelu", "decoder_start_token_id": 0,
}  # fmt: skip
GPT2 = {
    "vocab_size": 120, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 64,
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
}  # fmt: skip


def texts(template, sizes=(9, 30, 17)):
    generator = np.random.default_rng(1)
    tokens = np.concatenate([generator.integers(2, 95, size) for size in sizes])
    numbers, words = np.arange(len(sizes)), np.ones(len(tokens), bool)
    more = {"epochs": np.zeros_like(numbers), "indices": numbers}
    return lay_out(template, np.array(sizes)[:, None], tokens, words, **more)


def padded(ids, lengths, fill):
    """Packed tokens as rows, filled on the right."""
    rows = torch.full((len(lengths), max(lengths)), fill)
    for row, own in zip(rows, torch.split(torch.as_tensor(ids), list(lengths)), strict=True):
        row[: len(own)] = own
    return rows


def both(kind, config, tmp_path):
    """A model of transformers, and ours with the same weights."""
    torch.manual_seed(0)
    theirs = getattr(transformers, kind)(config)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(0, 0.2)
    theirs.save_pretrained(tmp_path / "peer")
    theirs = getattr(transformers, kind).from_pretrained(tmp_path / "peer").train()
    return theirs, folder.load(tmp_path / "peer").model.train()


@pytest.mark.parametrize("objective", [SpanCorruption(), PrefixLM()], ids=lambda o: o.name)
def test_t5_costs_what_its_labels_cost(objective, tmp_path):
    theirs, ours = both("T5ForConditionalGeneration", transformers.T5Config(**T5), tmp_path)
    batch = objective.batch(texts(CLOSED), 3, SOURCE)
    part = batch.targets[objective.name]
    inputs = padded(batch.ids, batch.lengths.tolist(), 0)
    mask = padded(np.ones_like(batch.ids), batch.lengths.tolist(), 0)
    labels = padded(part["answers"], part["lengths"].tolist(), -100)
    peer = theirs(input_ids=inputs, attention_mask=mask, labels=labels).loss
    mine = objective.loss(ours, batch.tensors()).value()
    assert abs(mine.item() - peer.item()) < 1e-5
    peer.backward()
    mine.backward()
    difference = ours.embeddings.tokens.weight.grad - theirs.shared.weight.grad
    assert difference.abs().max() < 1e-5 * max(1, theirs.shared.weight.grad.abs().max().item())


@pytest.mark.parametrize("objective", [CausalLM(), PrefixLM()], ids=lambda o: o.name)
def test_gpt2_costs_what_its_labels_cost(objective, tmp_path):
    theirs, ours = both("GPT2LMHeadModel", transformers.GPT2Config(**GPT2), tmp_path)
    batch = objective.batch(texts(BARE), 3, SOURCE)
    part = batch.targets[objective.name]
    if objective == CausalLM():
        inputs = padded(batch.ids, batch.lengths.tolist(), 0)
        labels = padded(batch.ids, batch.lengths.tolist(), -100)
    else:  # the first half is read and not asked for
        first = np.split(batch.ids, np.cumsum(batch.lengths)[:-1])
        second = np.split(part["answers"], np.cumsum(part["lengths"])[:-1])
        rows = [np.concatenate(pair) for pair in zip(first, second, strict=True)]
        unasked = [
            np.concatenate([np.full_like(a, -100), b]) for a, b in zip(first, second, strict=True)
        ]
        lengths = [len(row) for row in rows]
        inputs = padded(np.concatenate(rows), lengths, 0)
        labels = padded(np.concatenate(unasked), lengths, -100)
    peer = theirs(input_ids=inputs, labels=labels).loss
    mine = objective.loss(ours, batch.tensors()).value()
    assert abs(mine.item() - peer.item()) < 1e-5
    peer.backward()
    mine.backward()
    table = theirs.transformer.wte.weight.grad
    difference = ours.embeddings.tokens.weight.grad - table
    assert difference.abs().max() < 1e-5 * max(1, table.abs().max().item())


@pytest.mark.parametrize("text", ["A text.", "中文 and 🙂\n\ttwo  lines", "é\x00\x7f", ""])
def test_bytes_have_the_ids_of_byt5(text, tmp_path):
    tokenizer, theirs = Tokenizer.of_bytes(), transformers.ByT5Tokenizer()
    ids = tokenizer.encode([text])[0].ids
    assert ids == theirs(text)["input_ids"]
    names = ("<pad>", "</s>", "<unk>", "<extra_id_0>", "<extra_id_124>")
    assert [tokenizer.id_of(name) for name in names] == theirs.convert_tokens_to_ids(list(names))
    tokenizer.save(tmp_path)
    assert transformers.AutoTokenizer.from_pretrained(tmp_path)(text)["input_ids"] == ids
