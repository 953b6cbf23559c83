"""Texts written token by token: rows do not know of each other; draws follow the shares."""

import itertools

import pytest
import torch
from scipy.stats import chisquare

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.initialize import initialize
from clozeworks.errors import SettingError
from clozeworks.families.family import Config, families
from clozeworks.generate.beams import Beams, search
from clozeworks.generate.logits_processors import RequiredWords, Temperature, TopK
from clozeworks.generate.sampling import Limits, Written, write
from clozeworks.generate.session import DecoderSession

V = 11
SIZES = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40, "vocab_size": V},
    "t5": {
        "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "vocab_size": V,
    },
}  # fmt: skip
PARTS = {"gpt2": {"vocabulary"}, "t5": {"vocabulary", "decoder"}}
PROMPTS = [[3, 4, 5, 6, 7], [2, 9], [8, 8, 2, 2, 4, 4, 9], [5]]


@pytest.fixture(scope="module", params=SIZES)
def model(request):
    family = families()[request.param]
    blueprint: Blueprint = family.blueprint(
        Config(SIZES[request.param]), frozenset(PARTS[request.param])
    )
    made = blueprint.build()
    initialize(made, seed=4, std=0.7)
    return made.double().eval()


def given(model, prompts):
    return prompts if model.decoder is None else [[0]] * len(prompts)


@torch.no_grad()
def written(model, prompts, *, most=9, ends=(1,), stop=None, **settings):
    reader = DecoderSession(model, prompts, most, 0)
    limits = Limits(max_new_tokens=most, ends=ends, stop=stop)
    texts = {}
    for pieces in write(reader, given(model, prompts), limits=limits, **settings):
        for piece in pieces:
            texts.setdefault(piece.row, Written()).add(piece)
    return [texts[row] for row in sorted(texts)]


def test_a_batch_writes_what_each_prompt_gets_alone(model):
    together = written(model, PROMPTS, others=3)
    for prompt, text in zip(PROMPTS, together, strict=True):
        (alone,) = written(model, [prompt], others=3)
        assert text.tokens == alone.tokens and text.finish_reason == alone.finish_reason
        assert text.logs == pytest.approx(alone.logs, abs=1e-9)
        for token, log, others in zip(text.tokens, text.logs, text.others, strict=True):
            assert others[0] == (token, pytest.approx(log)) and len(others) == 3
        assert text.score == pytest.approx(sum(text.logs))


def test_draws_are_a_function_of_the_seed_alone(model):
    seeds = [[7], [8, 9], [7], [10]]
    together = written(model, PROMPTS, seeds=seeds)
    assert len(together) == 5
    (alone,) = written(model, [PROMPTS[1]], seeds=[[9]])
    assert together[2].tokens == alone.tokens
    again = written(model, PROMPTS[::-1], seeds=seeds[::-1])
    assert again[-1].tokens == together[0].tokens
    others = written(model, PROMPTS, seeds=[[1], [2], [3], [4]])
    assert [text.tokens for text in others] != [together[row].tokens for row in (0, 1, 3, 4)]


def test_draws_follow_the_filtered_shares(model):
    rules = (Temperature(value=1.5), TopK(count=4))
    with torch.no_grad():
        scores = DecoderSession(model, PROMPTS[:1], 1, 0).prefill()[0] / 1.5
    best = scores.topk(4)
    shares = best.values.softmax(dim=0)
    draws = written(model, PROMPTS[:1], most=1, rules=rules, seeds=[range(20_000)])
    counts = [0] * V
    for text in draws:
        counts[text.tokens[0]] += 1
    observed = [counts[token] for token in best.indices.tolist()]
    assert sum(observed) == 20_000
    assert chisquare(observed, (shares * 20_000).tolist()).pvalue > 1e-4
    # Negative control: shares at another temperature do not fit.
    wrong = (best.values * 1.5).softmax(dim=0) * 20_000
    assert chisquare(observed, wrong.tolist()).pvalue < 1e-4


def test_why_a_text_ends(model):
    endless = written(model, PROMPTS, most=4, ends=())
    assert {text.finish_reason for text in endless} == {"length"}
    assert all(len(text.tokens) == 4 for text in endless)
    first = endless[0].tokens[1]
    ended = written(model, PROMPTS[:1], most=4, ends=(first,))
    assert ended[0].finish_reason == "end" and ended[0].tokens[-1] == first
    stopped = written(model, PROMPTS, most=4, ends=(), stop=lambda prompt, tokens: len(tokens) == 2)
    assert {text.finish_reason for text in stopped} == {"stop"}


def test_required_words_are_in_the_text(model):
    rule = RequiredWords(words=((2, 3), (10,)), ends=(1,), max_new_tokens=6)
    for text in written(model, PROMPTS, most=6, rules=(rule,)):
        pairs = list(itertools.pairwise(text.tokens))
        assert (2, 3) in pairs and 10 in text.tokens


@torch.no_grad()
def beams(model, prompts, most=4, ends=(1,), **settings):
    reader = DecoderSession(model, prompts, most, 0)
    limits = Limits(max_new_tokens=most, ends=ends)
    return search(reader, given(model, prompts), beams=Beams(**settings), limits=limits)


def test_one_beam_is_greedy(model):
    for text, (found,) in zip(
        written(model, PROMPTS, ends=()),
        beams(model, PROMPTS, most=9, ends=(), num_beams=1),
        strict=True,
    ):
        assert found.tokens == text.tokens
        assert found.score == pytest.approx(sum(text.logs) / 9)


class Scripted:
    """Says the same of every text: so much for each token, step by step."""

    def __init__(self, *steps):
        self._steps = [torch.tensor([step]) for step in steps]

    def prefill(self):
        return self._steps.pop(0)

    def step(self, tokens):
        return self._steps.pop(0).expand(len(tokens), -1)

    def reorder(self, rows):
        pass

    reorder_prompts = reorder


def test_an_end_counts_only_among_as_many_candidates_as_there_are_beams():
    """Ends are looked at beyond them, so that enough texts are left that grow."""
    scripted = Scripted([0.0, 1.5, 2.0], [0.0, 9.0, 0.0])
    limits, one = Limits(max_new_tokens=4, ends=(1,)), Beams(num_beams=1, early_stopping=True)
    ((found,),) = search(scripted, [[0]], beams=one, limits=limits)
    assert found.tokens == [2, 1]


@pytest.mark.parametrize(("early", "tokens"), [(True, [1]), (False, [1]), ("never", [2, 1])])
def test_a_search_goes_on_while_something_better_may_come(early, tokens):
    """The end comes first; a longer text would have the better mean, which one of three awaits."""
    scripted = Scripted([-9.0, 1.1, 1.0], [0.0, 9.0, 0.0])
    limits, one = Limits(max_new_tokens=4, ends=(1,)), Beams(num_beams=1, early_stopping=early)
    ((found,),) = search(scripted, [[0]], beams=one, limits=limits)
    assert found.tokens == tokens


def test_a_search_that_is_wide_enough_finds_the_best(model):
    most, prompt = 3, PROMPTS[1]
    ends = (1,)
    (found,) = beams(
        model,
        [prompt],
        most=most,
        ends=ends,
        num_beams=V ** (most - 1),
        length_penalty=0.0,
        early_stopping="never",
    )
    best = max(_all_texts(model, prompt, most, ends), key=lambda pair: pair[1])
    assert found[0].tokens == best[0] and found[0].score == pytest.approx(best[1])


@torch.no_grad()
def _all_texts(model, prompt, most, ends):
    """Every text and its log share, by asking for all of them."""
    found, open_texts = [], [([], 0.0)]
    for length in range(1, most + 1):
        grown = []
        for tokens, score in open_texts:
            reader = DecoderSession(model, [prompt], most, 0)
            scores = reader.prefill()
            for token in tokens:
                scores = reader.step(torch.tensor([token]))
            logs = scores.log_softmax(dim=1)[0].tolist()
            for token, log in enumerate(logs):
                text = ([*tokens, token], score + log)
                (found if token in ends or length == most else grown).append(text)
        open_texts = grown
    return found


def test_beams_do_not_know_other_prompts(model):
    together = beams(model, PROMPTS, num_beams=3)
    for prompt, found in zip(PROMPTS, together, strict=True):
        (alone,) = beams(model, [prompt], num_beams=3)
        assert [text.tokens for text in found] == [text.tokens for text in alone]
        assert [text.score for text in found] == pytest.approx([text.score for text in alone])


def test_groups_differ(model):
    (alike,) = beams(
        model, PROMPTS[:1], num_beams=4, num_beam_groups=2, diversity_penalty=0.0, ends=()
    )
    firsts = {text.tokens[0] for text in alike}
    (found,) = beams(
        model, PROMPTS[:1], num_beams=4, num_beam_groups=2, diversity_penalty=50.0, ends=()
    )
    groups = [{text.tokens[0] for text in found if text.tokens[0] in firsts}]
    others = {text.tokens[0] for text in found} - groups[0]
    assert others and len({tuple(text.tokens) for text in found}) == 4


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_beams": 0}, "num_beams is 0; it must be at least 1."),
        (
            {"num_beams": 4, "num_beam_groups": 3},
            "num_beams is 4; it must be divisible by `num_beam_groups`, 3.",
        ),
        (
            {"num_beams": 4, "diversity_penalty": 1.0},
            "diversity_penalty is 1.0; it has no effect on one group of beams; set "
            "`num_beam_groups`.",
        ),
    ],
)
def test_searches_that_cannot_be(settings, said):
    with pytest.raises(SettingError) as raised:
        Beams(**settings)
    assert str(raised.value) == said
