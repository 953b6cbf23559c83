"""A text that grows by a cache is the text read at once, whatever its neighbours."""

import pytest
import torch

from clozeworks.core.attention.attention import CrossAttention, SelfAttention
from clozeworks.core.attention.kv_cache import GrowingCache, PrefixCache
from clozeworks.core.attention.masks import Causal, SlidingWindow, Window
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.context import AttentionSource
from clozeworks.core.initialize import initialize
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.feed_forward import Mlp
from clozeworks.core.layers.norm import RmsNorm
from clozeworks.core.layers.sublayer import PreNorm
from clozeworks.core.layers.tower import Tower
from clozeworks.core.layout import Layout
from clozeworks.core.positions.bucketed import Bucketed, BucketTable
from clozeworks.core.positions.learned import Learned
from clozeworks.core.positions.rotary import Rotary
from clozeworks.errors import InputError

NORM = RmsNorm()
ATTENTIONS = {
    "learned": SelfAttention(heads=4, mask=Causal()),
    "rotary": SelfAttention(heads=4, mask=Causal(), positions=Rotary(theta=100.0)),
    "grouped": SelfAttention(heads=4, kv_heads=2, mask=Causal(), positions=Rotary(theta=9.0)),
    "one key": SelfAttention(heads=4, kv_heads=1, mask=Causal(), positions=Rotary(theta=9.0)),
    "window": SelfAttention(
        heads=4, kv_heads=2, mask=SlidingWindow(length=4), positions=Rotary(theta=9.0)
    ),
    "bucketed": SelfAttention(heads=4, mask=Causal(), positions=Bucketed(), scale=1.0),
}


def tower(attention, *inner):
    parts = (attention, *inner, Mlp(inner=24))
    table = None
    if isinstance(attention.positions, Bucketed):
        table = BucketTable(heads=4, both_sides=False, count=8, farthest=12)
    layer = tuple(PreNorm(part=part, norm=NORM) for part in parts)
    return Tower(layers=(layer, layer), final_norm=NORM, positions=table)


def built(name, *, answers=False):
    embeddings = Embeddings(
        tokens=50, positions=Learned(count=40) if name == "learned" else None
    )  # fmt: skip
    attention = ATTENTIONS[name]
    blueprint = Blueprint(
        width=16,
        embeddings=embeddings,
        encoder=tower(attention),
        decoder=tower(attention, CrossAttention(heads=4)) if answers else None,
    )
    model = blueprint.build()
    initialize(model, seed=3, std=0.4)
    return model.double().eval()


def tokens(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 50, (length,), generator=generator) for length in lengths]


def grown(read, texts, first, steps, cache):
    """Vectors of all tokens from the last given one on, one row for each text."""
    begun = Layout(first)
    hidden = read(torch.cat([text[:n] for text, n in zip(texts, first, strict=True)]), begun, cache)
    found = [hidden[begun.last(hidden.device)]]
    for step in range(steps):
        following = torch.stack([text[n + step] for text, n in zip(texts, first, strict=True)])
        found.append(read(following, cache.following(), cache))
    return torch.stack(found, dim=1)  # (B, steps + 1, W)


@pytest.mark.parametrize("first", [[5, 5, 5], [1, 7, 4], [9, 1, 1]], ids=str)
@pytest.mark.parametrize("name", ATTENTIONS)
@torch.no_grad()
def test_growing_is_reading_at_once(name, first):
    model = built(name)
    texts = tokens([n + 6 for n in first])
    found = grown(
        lambda ids, layout, cache: model(ids, layout, cache=cache),
        texts,
        first,
        6,
        GrowingCache(20),
    )
    for text, n, row in zip(texts, first, found, strict=True):
        whole = model(text, Layout([len(text)]))
        assert (whole[n - 1 :] - row).abs().max() <= 1e-12


@pytest.mark.parametrize("name", ["learned", "bucketed"])
@pytest.mark.parametrize("sources", [[6, 6], [3, 11]], ids=str)
@torch.no_grad()
def test_answers_grow_beside_what_was_read(name, sources):
    model = built(name, answers=True)
    layout = Layout(sources)
    encoded = AttentionSource(model(torch.cat(tokens(sources)), layout), layout)
    answers = tokens([7, 7], seed=1)
    found = grown(
        lambda ids, layout, cache: model.decode(ids, layout, encoded, cache=cache),
        answers, [1, 1], 6, GrowingCache(9),
    )  # fmt: skip
    whole = model.decode(torch.cat(answers), Layout([7, 7]), encoded).view(2, 7, -1)
    assert (whole - found).abs().max() <= 1e-12


@torch.no_grad()
def test_rows_are_chosen_repeated_and_reordered():
    model = built("rotary")
    texts = tokens([9, 6, 8])
    cache = GrowingCache(20)
    first = [4, 1, 3]
    model(torch.cat([t[:n] for t, n in zip(texts, first, strict=True)]), Layout(first), cache=cache)
    order = [2, 0, 2, 2]
    cache.choose(order)
    following = torch.stack([texts[text][first[text]] for text in order])
    hidden = model(following, cache.following(), cache=cache)
    for row, text in zip(hidden, order, strict=True):
        whole = model(texts[text][: first[text] + 1], Layout([first[text] + 1]))
        assert (whole[-1] - row).abs().max() <= 1e-12
    cache.choose([3, 1])
    hidden = model(torch.stack([texts[2][4], texts[0][5]]), cache.following(), cache=cache)
    whole = model(texts[2][:5], Layout([5]))
    assert (whole[-1] - hidden[0]).abs().max() <= 1e-12
    whole = model(texts[0][:6], Layout([6]))
    assert (whole[-1] - hidden[1]).abs().max() <= 1e-12


@torch.no_grad()
def test_several_rows_ask_about_one_text():
    model = built("bucketed", answers=True)
    sources = [5, 3]
    layout = Layout(sources)
    encoded = AttentionSource(model(torch.cat(tokens(sources)), layout), layout)
    cache = GrowingCache(6)
    model.decode(torch.tensor([1, 1]), Layout([1, 1]), encoded, cache=cache)
    cache.choose([0, 0, 0, 1, 1, 1])
    following = torch.tensor([4, 5, 6, 4, 5, 6])
    hidden = model.decode(following, cache.following(), encoded, cache=cache)
    for row, token in enumerate(following.tolist()):
        own = AttentionSource(
            encoded.tokens[:5] if row < 3 else encoded.tokens[5:], Layout([sources[row // 3]])
        )
        whole = model.decode(torch.tensor([1, token]), Layout([2]), own)
        assert (whole[-1] - hidden[row]).abs().max() <= 1e-12


@pytest.mark.parametrize("name", ATTENTIONS)
@torch.no_grad()
def test_endings_look_back_at_their_beginning(name):
    """Three endings of unequal lengths behind one text, one behind another, two behind nothing."""
    model = built(name)
    beginnings, counts = tokens([7, 20, 0]), [3, 1, 2]
    endings = tokens([2, 5, 1, 4, 3, 6], seed=1)
    branches = PrefixCache(counts)
    model(torch.cat(beginnings), Layout([7, 20, 0]), cache=branches)
    layout = branches.following([len(ending) for ending in endings])
    found = layout.split(model(torch.cat(endings), layout, cache=branches))
    for owner, ending, own in zip([0, 0, 0, 1, 2, 2], endings, found, strict=True):
        text = torch.cat([beginnings[owner], ending])
        whole = model(text, Layout([len(text)]))
        assert (whole[len(beginnings[owner]) :] - own).abs().max() <= 1e-12


@torch.no_grad()
def test_answers_look_together_at_the_text_they_answer():
    model = built("bucketed", answers=True)
    sources, counts = [5, 9], [2, 3]
    layout = Layout(sources)
    encoded = AttentionSource(model(torch.cat(tokens(sources)), layout), layout)
    answers = tokens([3, 1, 4, 2, 6], seed=1)
    together = Layout([len(answer) for answer in answers])
    hidden = model.decode(torch.cat(answers), together, encoded, cache=PrefixCache(counts))
    texts = layout.split(encoded.tokens)
    for owner, answer, own in zip([0, 0, 1, 1, 1], answers, together.split(hidden), strict=True):
        alone = AttentionSource(texts[owner], Layout([sources[owner]]))
        whole = model.decode(answer, Layout([len(answer)]), alone)
        assert (whole - own).abs().max() <= 1e-12


@torch.no_grad()
def test_several_tokens_at_once_see_only_those_before():
    model = built("grouped")
    text = tokens([12])[0]
    cache = GrowingCache(12)
    model(text[:5], Layout([5]), cache=cache)
    hidden = model(text[5:9], cache.following(4), cache=cache)
    whole = model(text[:9], Layout([9]))
    assert (whole[5:] - hidden).abs().max() <= 1e-12


@pytest.mark.parametrize("name", ATTENTIONS)
@torch.no_grad()
def test_no_token_sees_a_later_one(name):
    model = built(name)
    text = tokens([14])[0]
    before = model(text, Layout([14]))
    changed = text.clone()
    changed[8] = (changed[8] + 1) % 50
    after = model(changed, Layout([14]))
    assert torch.equal(before[:8], after[:8])
    assert (before[8:] - after[8:]).abs().amax(dim=1).min() > 1e-6


def test_a_learned_table_ends_with_a_cache_too():
    model = built("learned")
    cache = GrowingCache(50)
    with torch.no_grad():
        model(torch.zeros(40, dtype=torch.long), Layout([40]), cache=cache)
        with pytest.raises(InputError, match="text 1 has 41 tokens; this model takes at most 40"):
            model(torch.zeros(1, dtype=torch.long), cache.following(), cache=cache)


def test_who_writes():
    assert (
        built("rotary").blueprint.can_generate
        and built("bucketed", answers=True).blueprint.can_generate
    )
    layer = (PreNorm(part=SelfAttention(heads=4, mask=Window(reach=2)), norm=NORM),)
    looking = Blueprint(width=16, embeddings=Embeddings(tokens=5), encoder=Tower(layers=(layer,)))
    assert not looking.can_generate
