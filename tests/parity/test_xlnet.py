"""XLNet beside transformers: encoder and heads, segments, padding on the left, folders."""

import pytest
import torch
import torch.nn.functional as F

from clozeworks.checkpoints import folder as folders
from clozeworks.core.context import Trace
from clozeworks.core.heads import Head
from clozeworks.core.layers.two_stream import Memory, PermutationRanks, TargetQueries, two_streams
from clozeworks.core.layout import Layout
from clozeworks.core.model import hidden_states_at
from clozeworks.errors import CheckpointError
from clozeworks.families.family import Config
from clozeworks.families.xlnet import FAMILY

pytestmark = pytest.mark.parity

LENGTHS = ([1], [40], [1, 40, 7, 7, 7, 12, 12, 39, 2, 40], list(range(1, 41)))
CASES = [
    ("XLNetLMHeadModel", "vocabulary", "logits"),
    ("XLNetForSequenceClassification", "classes", "logits"),
    ("XLNetForTokenClassification", "tokens", "logits"),
    ("XLNetForQuestionAnsweringSimple", "answer", "start_logits"),
]


def ours(theirs, tmp_path):
    theirs.save_pretrained(tmp_path / "peer")
    checkpoint = folders.load(tmp_path / "peer")
    assert not checkpoint.report.missing and not checkpoint.report.unexpected
    return checkpoint


def close(left, right, tolerance=1e-5):
    scale = max(1.0, right.abs().max().item())
    difference = (left - right).abs().max().item()
    assert difference <= tolerance * scale, f"{difference} at scale {scale}"


def inputs_of(data, types=True):
    inputs = {"input_ids": data["padded_ids"], "attention_mask": data["mask"]}
    return {**inputs, "token_type_ids": data["padded_types"]} if types else inputs


def gradients_of(theirs):
    """The peer's gradients by our names, in our shapes."""
    names = FAMILY.names(type(theirs).__name__)
    forms = FAMILY.forms(Config(theirs.config.to_dict()))
    found = {}
    for name, parameter in theirs.named_parameters():
        if parameter.grad is None:
            continue
        form = next((form for form in forms if name.endswith(form.ending)), None)
        if form is None:
            found[names.ours(name)] = parameter.grad
        else:
            found[names.ours(f"{name}:{form.pieces[0]}")] = form.apart(parameter.grad)[0]
    return found


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda lengths: f"{len(lengths)}texts")
@pytest.mark.parametrize(("architecture", "head", "output"), CASES)
def test_scores_losses_and_gradients(
    architecture, head, output, lengths, mode, peer, batch, tmp_path
):
    theirs = peer(architecture).train(mode == "train")
    model = ours(theirs, tmp_path).model.train(mode == "train")
    data, layout = batch(lengths, left=True, pad=5), Layout(lengths)
    real = data["mask"].bool()
    expected = theirs(**inputs_of(data), output_hidden_states=True)
    trace = Trace()
    hidden = model(data["ids"], layout, data["types"], trace)
    for left, right in zip(trace.hidden_states, expected.hidden_states, strict=True):
        close(left, right[real])

    right = getattr(expected, output)
    if head == "answer":
        right = torch.stack([expected.start_logits, expected.end_logits], dim=-1)
    right = right[real] if type(model.head(head)).read is Head.read else right
    scores = model.head(head).logits(hidden, layout)
    close(scores, right)

    labels = torch.arange(len(right)) % right.shape[-1]
    loss, expected_loss = F.cross_entropy(scores, labels), F.cross_entropy(right, labels)
    assert abs(loss.item() - expected_loss.item()) <= 1e-5 * max(1.0, expected_loss.item())
    loss.backward()
    expected_loss.backward()
    gradients = gradients_of(theirs)
    compared = 0
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            close(parameter.grad, gradients.pop(name))
            compared += 1
    assert compared > 30
    assert all(gradient.abs().max() <= 1e-5 for gradient in gradients.values())


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"clamp_len": 9}, {"ff_activation": "gelu_new"}],
    ids=["plain", "clamped", "tanh"],
)
@pytest.mark.parametrize("types", [True, False], ids=["types", "no types"])
def test_hidden_states(types, changes, left, peer, batch, tmp_path):
    theirs = peer("XLNetModel", **changes)
    model = ours(theirs, tmp_path).model
    lengths = [3, 40, 11, 40, 25]
    data = batch(lengths, left=left, pad=5)
    expected = theirs(**inputs_of(data, types)).last_hidden_state[data["mask"].bool()]
    close(model(data["ids"], Layout(lengths), data["types"] if types else None), expected)


@pytest.mark.parametrize("types", [True, False], ids=["types", "no types"])
def test_hidden_states_of_a_model_that_sees_the_past_alone(types, peer, batch, tmp_path):
    """With a padding mask the peer cannot compute this, so all texts are equally long."""
    theirs = peer("XLNetModel", attn_type="uni")
    model = ours(theirs, tmp_path).model
    data = batch([30, 30, 30], pad=5)
    inputs = inputs_of(data, types)
    del inputs["attention_mask"]
    expected = theirs(**inputs).last_hidden_state.flatten(0, 1)
    close(model(data["ids"], Layout([30] * 3), data["types"] if types else None), expected)


def test_attention_weights(peer, batch, tmp_path):
    theirs = peer("XLNetModel")
    model = ours(theirs, tmp_path).model
    lengths = [7, 40, 7, 3]
    data = batch(lengths, pad=5)
    expected = theirs(**inputs_of(data), output_attentions=True).attentions
    trace = Trace()
    model(data["ids"], Layout(lengths), data["types"], trace)
    for layer, right in zip(trace.attention, expected, strict=True):
        for row, length in enumerate(lengths):
            close(layer[row], right[row, :, :length, :length])


def test_their_own_losses_are_ours(peer, batch, tmp_path):
    theirs = peer("XLNetLMHeadModel")
    model = ours(theirs, tmp_path).model
    data, layout = batch([9, 9], pad=5), Layout([9, 9])
    expected = theirs(**inputs_of(data), labels=data["padded_ids"]).loss
    scores = model.head("vocabulary").logits(model(data["ids"], layout, data["types"]), layout)
    torch.testing.assert_close(F.cross_entropy(scores, data["ids"]), expected, atol=1e-5, rtol=1e-5)


def test_the_query_stream_begins_where_the_folder_says(peer, tmp_path):
    theirs = peer("XLNetForTokenClassification")
    checkpoint = ours(theirs, tmp_path)
    vector = checkpoint.model.heads["query_start"].vector
    assert torch.equal(vector, theirs.transformer.mask_emb.flatten())


def drawn_ranks(lengths, asked, seed=0):
    """Random orders: a few asked tokens, the others visible to all and blind for the asked."""
    generator = torch.Generator().manual_seed(seed)
    sees, seen, targets = [], [], []
    start = 0
    for length in lengths:
        order = torch.randperm(length, generator=generator)
        chosen = torch.randperm(length, generator=generator)[:asked].sort().values
        target = torch.zeros(length, dtype=torch.bool)
        target[chosen] = True
        sees.append(order.where(target, torch.zeros_like(order)))
        seen.append(order.where(target, torch.full_like(order, -1)))
        targets.append(chosen + start)
        start += length
    return PermutationRanks(torch.cat(sees), torch.cat(seen)), torch.cat(targets)


def peer_masks(ranks, targets, lengths, asked):
    """The same as the peer wants it, texts padded on the left."""
    longest = max(lengths)
    hidden = torch.zeros(len(lengths), longest, longest)
    mapping = torch.zeros(len(lengths), asked, longest)
    start = 0
    for row, length in enumerate(lengths):
        own = slice(start, start + length)
        pad = longest - length
        sees, seen = ranks.sees[own], ranks.seen[own]
        hidden[row, pad:, pad:] = (seen[None, :] >= sees[:, None]).float()
        for number, place in enumerate(targets[row * asked : (row + 1) * asked].tolist()):
            mapping[row, number, place - start + pad] = 1
        start += length
    return {"perm_mask": hidden, "target_mapping": mapping}


def asked_of(model, targets, lengths, asked):
    start = model.heads["query_start"].vector
    return TargetQueries(targets, Layout([asked] * len(lengths)), start)


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("lengths", [[12], [9, 20, 20, 7], [16, 16, 16]], ids=str)
def test_both_streams_in_every_layer(lengths, mode, peer, batch, tmp_path):
    theirs = peer("XLNetLMHeadModel").train(mode == "train")
    model = ours(theirs, tmp_path).model.train(mode == "train")
    data, layout = batch(lengths, left=True, pad=5), Layout(lengths)
    ranks, targets = drawn_ranks(lengths, asked=3)
    expected = theirs(
        **inputs_of(data), **peer_masks(ranks, targets, lengths, 3), output_hidden_states=True
    )
    streams = two_streams(
        model, data["ids"], layout, data["types"],
        targets=asked_of(model, targets, lengths, 3), ranks=ranks,
    )  # fmt: skip
    real = data["mask"].bool()
    assert len(expected.hidden_states) == 8
    for step in range(4):
        close(streams.content[step], expected.hidden_states[2 * step][real])
        close(streams.queries[step], expected.hidden_states[2 * step + 1].flatten(0, 1))
    scores = model.heads["vocabulary"](streams.queries[-1])
    close(scores, expected.logits.flatten(0, 1))
    labels = data["ids"][targets]
    F.cross_entropy(scores, labels).backward()
    F.cross_entropy(expected.logits.flatten(0, 1), labels).backward()
    gradients = gradients_of(theirs)
    for name, parameter in model.named_parameters():
        close(parameter.grad, gradients[name])


def test_gaps_are_asked_by_the_query_stream(peer, batch, tmp_path):
    """As the peer's own example does it: nobody sees the gap, one target for each."""
    theirs = peer("XLNetLMHeadModel")
    model = ours(theirs, tmp_path).model
    data, layout = batch([11, 11], pad=5), Layout([11, 11])
    gaps = {0: [2, 7], 1: [4, 10]}
    hidden, mapping = torch.zeros(2, 11, 11), torch.zeros(2, 2, 11)
    for row, places in gaps.items():
        hidden[row, :, places] = 1
        mapping[row, [0, 1], places] = 1
    expected = theirs(**inputs_of(data), perm_mask=hidden, target_mapping=mapping).logits
    asked = torch.tensor([2, 7, 15, 21])
    vectors = hidden_states_at(model, data["ids"], layout, data["types"], asked)
    close(model.heads["vocabulary"](vectors), expected.flatten(0, 1))


@pytest.mark.parametrize("mem_len", [None, 5, 13], ids=["all", "some", "more than one segment"])
def test_a_memory_over_three_segments(mem_len, peer, batch, tmp_path):
    theirs = peer("XLNetLMHeadModel", mem_len=mem_len, use_mems_eval=True)
    model = ours(theirs, tmp_path).model
    lengths, layout = [9, 9], Layout([9, 9])
    memory, mems = None, None
    for segment in range(3):
        data = batch(lengths, pad=5, seed=segment)
        ranks, targets = drawn_ranks(lengths, asked=4, seed=segment)
        inputs = {"input_ids": data["padded_ids"], "token_type_ids": data["padded_types"]}
        expected = theirs(
            **inputs, **peer_masks(ranks, targets, lengths, 4), mems=mems,
            output_hidden_states=True,
        )  # fmt: skip
        streams = two_streams(
            model, data["ids"], layout, data["types"],
            targets=asked_of(model, targets, lengths, 4), ranks=ranks, memory=memory,
        )  # fmt: skip
        for step in range(4):
            close(streams.content[step], expected.hidden_states[2 * step].flatten(0, 1))
            close(streams.queries[step], expected.hidden_states[2 * step + 1].flatten(0, 1))
        close(model.heads["vocabulary"](streams.queries[-1]), expected.logits.flatten(0, 1))
        mems = expected.mems
        memory = Memory(
            [mem.transpose(0, 1).flatten(0, 1) for mem in mems], Layout([len(mems[0])] * 2)
        )
        kept = [state.view(2, 9, -1) for state in streams.content[:-1]]
        for mem, own in zip(mems, kept, strict=True):
            size = min(9, len(mem))
            close(own[:, -size:], mem.transpose(0, 1)[:, -size:])


@pytest.mark.parametrize("key", ["untie_r", "bi_data", "same_length", "d_head", "attn_type"])
def test_what_is_not_computed_is_refused(key, peer, tmp_path):
    values = {"untie_r": False, "bi_data": True, "same_length": True, "d_head": 5, "attn_type": "x"}
    config = Config({**peer("XLNetModel").config.to_dict(), key: values[key]})
    with pytest.raises(CheckpointError, match=f"{key} is "):
        FAMILY.blueprint(config, frozenset())
