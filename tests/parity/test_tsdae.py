"""TSDAE: the loss and every gradient are those of the decoder of sentence-transformers.

Its loss makes a decoder of the encoder's class, with cross-attention, and ties all else; so is done
here, by the classes of transformers.
"""

import pytest
import torch
import torch.nn.functional as F
import transformers

from clozeworks.checkpoints import folder as folders
from clozeworks.checkpoints.tasks import with_task
from clozeworks.core.layout import Layout
from clozeworks.objectives.batch import ANSWERS, BatchTensors
from clozeworks.objectives.teacher_forcing import LENGTHS, READ
from clozeworks.tasks.embed.losses import HEAD
from clozeworks.tasks.embed.losses.tsdae import TSDAE
from clozeworks.tasks.embed.task import Embed

pytestmark = pytest.mark.parity
WRITERS = {
    "BertForMaskedLM": ("BertLMHeadModel", "BertModel", "bert"),
    "RobertaForMaskedLM": ("RobertaForCausalLM", "RobertaModel", "roberta"),
    "ElectraForMaskedLM": ("ElectraForCausalLM", "ElectraModel", "electra"),
}
CROSS = {
    "part.query": "self.query",
    "part.key": "self.key",
    "part.value": "self.value",
    "part.output": "output.dense",
    "norm": "output.LayerNorm",
}
DAMAGED, WHOLE = [3, 7, 2, 5], [6, 11, 4, 5]


def texts(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(5, 99, (n,), generator=generator) for n in lengths]


def padded(several, pad):
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(each) for each in several], True)
    return torch.nn.utils.rnn.pad_sequence(several, True, padding_value=pad), mask


def their_decoder(theirs, network):
    """A decoder with the weights of a masked language model and our cross-attention."""
    writer_class, reader_class, stem = WRITERS[type(theirs).__name__]
    config = type(theirs.config)(**theirs.config.to_dict())
    config._attn_implementation = "eager"
    reader = getattr(transformers, reader_class)(config)
    config = type(theirs.config)(**theirs.config.to_dict())
    config._attn_implementation = "eager"
    config.is_decoder, config.add_cross_attention = True, True
    writer = getattr(transformers, writer_class)(config)
    missing, unexpected = writer.load_state_dict(theirs.state_dict(), strict=False)
    assert not unexpected and all("crossattention" in name for name in missing)
    base = getattr(writer, stem)
    with torch.no_grad():
        for layer, cross in zip(base.encoder.layer, network.heads[HEAD].cross, strict=True):
            for own, other in CROSS.items():
                target = layer.crossattention.get_submodule(other)
                target.load_state_dict(cross.get_submodule(own).state_dict())
    for name, parameter in base.named_parameters():
        if "crossattention" not in name:
            owner, _, last = name.rpartition(".")
            setattr(reader.get_submodule(owner), last, parameter)
    return writer, base, reader


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("architecture", WRITERS)
def test_the_decoder_is_the_published_one(architecture, pooling, peer, gradients_of, tmp_path):
    theirs = peer(architecture, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    theirs.save_pretrained(tmp_path)
    task = Embed(loss=TSDAE(), pooling=(pooling,))
    checkpoint = with_task(folders.load(tmp_path), task)
    network = checkpoint.model.train()
    writer, base, reader = their_decoder(theirs, network)
    writer.train(), reader.train()
    damaged, whole = texts(DAMAGED, 1), texts(WHOLE, 2)

    pad = theirs.config.pad_token_id
    ids, mask = padded(damaged, pad)
    states = reader(input_ids=ids, attention_mask=mask).last_hidden_state
    weights = mask.unsqueeze(-1).to(states.dtype)
    vectors = states[:, 0] if pooling == "first" else (states * weights).sum(1) / weights.sum(1)
    target, _ = padded(whole, pad)
    logits = writer(
        input_ids=target[:, :-1],
        encoder_hidden_states=vectors[:, None],
        encoder_attention_mask=mask[:, :1],
        use_cache=False,
    ).logits
    expected = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=pad)
    expected.backward()

    tensors = BatchTensors(
        torch.cat(damaged),
        torch.zeros(sum(DAMAGED), dtype=torch.long),
        Layout(DAMAGED),
        {
            task.name: {
                READ: torch.cat([each[:-1] for each in whole]),
                ANSWERS: torch.cat([each[1:] for each in whole]),
                LENGTHS: torch.tensor(WHOLE) - 1,
            }
        },
    )
    term = task.batch_loss(network, tensors).terms[task.name]
    value = term.total / term.count
    value.backward()
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)

    named = dict(theirs.named_parameters())
    for name, parameter in writer.named_parameters():
        if name in named:
            named[name].grad = parameter.grad
    gradients = gradients_of(theirs, checkpoint)
    compared = 0
    for name, parameter in network.named_parameters():
        if parameter.grad is None or name.startswith(f"heads.{HEAD}"):
            continue
        scale = max(1.0, gradients[name].abs().max().item())
        assert (parameter.grad - gradients[name]).abs().max() <= 1e-5 * scale, name
        compared += 1
    assert compared > 20
    for layer, cross in zip(base.encoder.layer, network.heads[HEAD].cross, strict=True):
        for own, other in CROSS.items():
            mine = cross.get_submodule(own).weight.grad
            assert torch.allclose(
                mine, layer.crossattention.get_submodule(other).weight.grad, atol=1e-5
            ), own
        assert cross.part.value.weight.grad.abs().max() > 1e-3
        assert cross.part.query.weight.grad.abs().max() < 1e-6  # one key: its weight is 1
