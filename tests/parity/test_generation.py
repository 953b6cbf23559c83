"""Texts and rules against transformers: greedy and beam search token for token."""

import itertools

import pytest
import torch
from transformers.generation import logits_process as theirs

from clozeworks.checkpoints import folder as folders
from clozeworks.generate import logits_processors as ours
from clozeworks.generate.beams import Beams, search
from clozeworks.generate.logits_processors import History, applied
from clozeworks.generate.sampling import Limits, Written, write
from clozeworks.generate.session import DecoderSession

pytestmark = pytest.mark.parity

MOST = 12
PROMPTS = [[5, 6, 7, 8, 9], [10, 4], [20, 21, 5, 5, 20, 21, 22, 7, 7]]
# A window slides over what is written, and one layer knows no positions.
WINDOWED = {"sliding_window": 4}
ARCHITECTURES = {
    "GPT2LMHeadModel": {},
    "LlamaForCausalLM": {},
    "T5ForConditionalGeneration": {},
    "MistralForCausalLM": WINDOWED,
    "Qwen2ForCausalLM": {"use_sliding_window": True, "max_window_layers": 1, **WINDOWED},
    "SmolLM3ForCausalLM": {"use_sliding_window": True, **WINDOWED},
}
SMALL = {"vocab_size": 23}


@pytest.fixture
def both(peer, tmp_path):
    """A peer and the same model here."""

    def make(architecture, seed):
        model = peer(architecture, seed=seed, **SMALL, **ARCHITECTURES[architecture])
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.5)
        model.save_pretrained(tmp_path / f"{architecture}{seed}")
        return model, folders.load(tmp_path / f"{architecture}{seed}").model

    return make


def generated(model, prompt, **settings):
    """What the peer writes behind one prompt, and its score."""
    found = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        max_new_tokens=MOST,
        do_sample=False,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )
    skipped = 1 if model.config.is_encoder_decoder else len(prompt)
    return found, [row[skipped:] for row in found.sequences.tolist()]


def given(model):
    return PROMPTS if model.decoder is None else [[0]] * len(PROMPTS)


def cut(tokens, ends):
    """A padded row up to its first end."""
    places = [place for place, token in enumerate(tokens) if token in ends]
    return tokens[: places[0] + 1] if places else tokens


@pytest.mark.parametrize("ends", [(1,), (1, 4, 7)], ids=str)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@torch.no_grad()
def test_greedy(architecture, seed, ends, both):
    model, own = both(architecture, seed)
    limits = Limits(max_new_tokens=MOST, ends=ends)
    repeat = (ours.RepetitionPenalty(penalty=1.3), ours.NoRepeatedNGrams(size=3))
    for rules, settings in (
        ((), {}),
        (repeat, {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3}),
    ):
        texts = [Written() for _ in PROMPTS]
        for pieces in write(
            DecoderSession(own, PROMPTS, MOST, 0), given(own), limits=limits, rules=rules
        ):
            for piece in pieces:
                texts[piece.row].add(piece)
        for prompt, text in zip(PROMPTS, texts, strict=True):
            _, (expected,) = generated(model, prompt, eos_token_id=list(ends), **settings)
            assert text.tokens == expected


@pytest.mark.parametrize("early", [True, False, "never"])
@pytest.mark.parametrize("ends", [(1,), (1, 4, 7)], ids=str)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@torch.no_grad()
def test_beams(architecture, seed, ends, early, both):
    model, own = both(architecture, seed)
    limits = Limits(max_new_tokens=MOST, ends=ends)
    for width, penalty in itertools.product((2, 5), (-1.0, 0.0, 0.6, 2.0)):
        beams = Beams(num_beams=width, length_penalty=penalty, early_stopping=early)
        found = search(
            DecoderSession(own, PROMPTS, MOST, 0), given(own), beams=beams, limits=limits
        )
        for prompt, texts in zip(PROMPTS[:2], found[:2], strict=True):
            expected, rows = generated(
                model, prompt, eos_token_id=list(ends), num_beams=width, early_stopping=early,
                length_penalty=penalty, num_return_sequences=width,
            )  # fmt: skip
            for text, row, score in zip(texts, rows, expected.sequences_scores, strict=True):
                assert text.tokens == cut(row, ends)
                assert text.score == pytest.approx(score.item(), rel=1e-4)


RULES = [
    (ours.RepetitionPenalty(penalty=1.7), theirs.RepetitionPenaltyLogitsProcessor(1.7)),
    (ours.RepetitionPenalty(penalty=0.6), theirs.RepetitionPenaltyLogitsProcessor(0.6)),
    (ours.NoRepeatedNGrams(size=1), theirs.NoRepeatNGramLogitsProcessor(1)),
    (ours.NoRepeatedNGrams(size=2), theirs.NoRepeatNGramLogitsProcessor(2)),
    (ours.NoRepeatedNGrams(size=4), theirs.NoRepeatNGramLogitsProcessor(4)),
    (
        ours.BadWords(words=((3,), (1, 2), (0, 1, 2))),
        theirs.NoBadWordsLogitsProcessor([[3], [1, 2], [0, 1, 2]]),
    ),
    (
        ours.MinNewTokens(tokens=40, ends=(1, 2)),
        theirs.MinNewTokensLengthLogitsProcessor(0, 40, [1, 2]),
    ),
    (ours.Temperature(value=0.7), theirs.TemperatureLogitsWarper(0.7)),
    (ours.TopK(count=3), theirs.TopKLogitsWarper(3)),
    (ours.TopK(count=50), theirs.TopKLogitsWarper(50)),
    (ours.TopP(mass=0.3), theirs.TopPLogitsWarper(0.3)),
    (ours.TopP(mass=0.95), theirs.TopPLogitsWarper(0.95)),
    (ours.MinP(p=0.2), theirs.MinPLogitsWarper(0.2)),
    (ours.Typical(mass=0.5), theirs.TypicalLogitsWarper(0.5)),
]


@pytest.mark.parametrize("kind", ["random", "ties", "never"])
@pytest.mark.parametrize(("own", "peer_rule"), RULES, ids=lambda rule: type(rule).__name__)
def test_rules(own, peer_rule, kind):
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randn(4, 9, generator=generator) * 3
        if kind == "ties":
            scores = scores.round()
        if kind == "never":
            scores[torch.rand(4, 9, generator=generator) < 0.3] = -torch.inf
            scores[:, 0] = 1.0
        tokens = torch.randint(0, 5, (4, 13), generator=generator)
        history = History(tokens.tolist(), 0, torch.device("cpu"))
        expected = peer_rule(tokens, scores.clone())
        assert torch.equal(applied([own], scores, history, ()), expected)
