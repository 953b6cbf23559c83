"""What every objective must keep, whoever wrote it: run over the files of the folder.

The cases are the examples on the cards: what stands there is built, read, collated and trained.
"""

import dataclasses
import importlib
import inspect
import json
import re
import tomllib

import numpy as np
import pytest
import torch

from clozeworks import config, registry
from clozeworks.core.initialize import initialize
from clozeworks.data.examples import ExamplesSpec
from clozeworks.data.examples.example_arrays import ExampleArrays, lay_out
from clozeworks.errors import SettingError
from clozeworks.families.family import Config, families
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.combine import leaves
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.budget import BudgetSpec
from clozeworks.objectives.noise.corruption import Corruption
from clozeworks.objectives.objective import Objective
from clozeworks.objectives.scheduled_sampling import TeacherForcingSchedule
from clozeworks.text.tokenizer.templates import Template

HEADINGS = ("Paper:", "Data:", "Masks and predicts:", "Loss:", "Relations:", "Example:")
SLOTS = (Objective, ChoiceSpec, BudgetSpec, ExamplesSpec, TeacherForcingSchedule)
NAMES = {cls.__name__: cls for slot in SLOTS for cls in registry.specs(slot).values()}
SPECIAL, MASK, TEXT, VOCABULARY = (0, 1, 2, 3, 4), 4, 90, 150
# Behind the tokens of text, as in T5: sentinels, the first of them last.
NAMED = {f"<extra_id_{number}>": VOCABULARY - 1 - number for number in range(50)}
PAIR = Template(((2,), (3,), (3,)), ((0,), (0,), (1,)), (0, 1))


def files():
    """Every file of the folder that defines an objective, with what it defines."""
    found = {}
    for name, path in registry.files("clozeworks.objectives").items():
        module = importlib.import_module(path)
        own = [
            cls
            for _, cls in inspect.getmembers(module, inspect.isclass)
            if issubclass(cls, Objective)
            and cls.__module__ == path
            and not cls.__dict__.get("is_slot", False)
        ]
        if own:
            found[name] = (module, own)
    return found


def card(module):
    """The sections of a module's docstring, by heading."""
    text = inspect.getdoc(module) or ""
    pattern = r"^(" + "|".join(map(re.escape, (*HEADINGS, "Shapes:"))) + ")"
    pieces = re.split(pattern, text, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], map(str.strip, pieces[2::2]), strict=True))


def examples(module):
    """The objectives a card shows: Python, or a recipe in braces."""
    shown = re.findall(r"`([^`]+)`", card(module).get("Example:", ""))
    for text in (re.sub(r"\s+", " ", item) for item in shown):
        if text.startswith("{"):
            yield text, config.read(Objective, tomllib.loads(f"objective = {text}")["objective"])
        else:
            yield text, eval(text, dict(NAMES))


FILES = files()
CASES = [
    pytest.param(objective, id=f"{name}-{number}")
    for name, (module, _) in FILES.items()
    for number, (_, objective) in enumerate(examples(module))
]


def clean(seed=0, first=0, epoch=0, groups=4) -> ExampleArrays:
    """Labelled pairs in views of three: something for every objective."""
    generator = np.random.default_rng(seed)
    texts = []
    for _ in range(3 * groups):
        sizes = generator.integers(6, 40, 2)
        drawn = [generator.integers(5, TEXT, size) for size in sizes]
        texts.append([(tokens, generator.random(len(tokens)) < 0.7) for tokens in drawn])
    made = lay_out(
        PAIR,
        np.array([[len(tokens) for tokens, _ in example] for example in texts]),
        *map(np.concatenate, zip(*(text for example in texts for text in example), strict=True)),
        epochs=np.full(len(texts), epoch),
        indices=np.arange(first, first + len(texts)),
        labels=generator.integers(0, 2, len(texts)),
    )
    return dataclasses.replace(made, views=3)


def some(batch: ExampleArrays, numbers) -> ExampleArrays:
    """Some examples of a batch, in this order."""
    keep = np.concatenate(
        [np.arange(batch.starts[n], batch.starts[n] + batch.lengths[n]) for n in numbers]
    )
    return ExampleArrays(
        ids=batch.ids[keep],
        types=batch.types[keep],
        special=batch.special[keep],
        word_starts=batch.word_starts[keep],
        lengths=batch.lengths[numbers],
        epochs=batch.epochs[numbers],
        indices=batch.indices[numbers],
        labels=batch.labels[numbers],
        views=batch.views,
    )


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small only lose by sharing their work, all the more on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def source(in_memory):
    split = in_memory([[list(range(5, TEXT))] * 3], VOCABULARY)
    return Vocabularies(
        VOCABULARY,
        mask_id=MASK,
        special_ids=(*SPECIAL, *NAMED.values()),
        split=split,
        named=NAMED,
        start_id=0,
        end_id=3,
    )


TINY = {
    "bert": (
        "bert-tiny", ("pooler", "vocabulary", "next_sentence"),
        {
            "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24,
            "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
        },
    ),
    "gpt2": (
        "gpt2", ("vocabulary",),
        {
            "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 128,
            "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        },
    ),
    "t5": (
        "t5-v1_1-small", ("decoder", "vocabulary"),
        {"d_model": 16, "num_layers": 2, "num_heads": 2, "d_kv": 8, "d_ff": 24, "dropout_rate": 0},
    ),
}  # fmt: skip


def blueprint(name):
    """A tiny network of a family, without dropout."""
    size, parts, small = TINY[name]
    settings = {**families()[name].published(size), **small, "vocab_size": VOCABULARY}
    return families()[name].blueprint(Config(settings), frozenset(parts))


def built(objective):
    """A tiny model in float64, with every head the objective wants: the first that can learn it."""
    refused = []
    for name in TINY:
        try:
            equipped = objective.equip(blueprint(name))
            break
        except SettingError as error:
            refused.append(error)
    else:
        raise refused[0]
    model = equipped.build()
    initialize(model, seed=2, std=0.3)
    return model.double().train()


@pytest.mark.parametrize("objective", CASES)
def test_what_cannot_learn_it_is_told_so_in_a_sentence(objective):
    refused = 0
    for name in TINY:
        try:
            objective.equip(blueprint(name))
        except SettingError as error:
            refused += 1
            assert ";" in str(error) and str(error).endswith(".")
    assert refused < len(TINY), "nobody can learn it"


def test_the_folder_was_read():
    assert {"masked_lm", "next_sentence", "sentence_order", "span_boundary"} <= set(FILES)
    assert {"contrastive", "combine"} <= set(FILES)
    assert len(CASES) >= len(FILES)


@pytest.mark.parametrize("name", FILES)
def test_every_file_has_a_card(name):
    module, own = FILES[name]
    sections = card(module)
    assert [heading for heading in sections if heading != "Shapes:"] == list(HEADINGS)
    assert all(len(sections[heading]) > 10 for heading in HEADINGS)
    shown = [leaf for _, objective in examples(module) for leaf in (objective, *leaves(objective))]
    inner = [o.objective for o in shown if hasattr(o, "objective")]
    inner += [part for o in shown for part in getattr(o, "parts", ())]
    assert {type(objective) for objective in (*shown, *inner)} >= set(own)


@pytest.mark.parametrize(
    "slot", [Objective, ChoiceSpec, BudgetSpec, TeacherForcingSchedule], ids=lambda s: s.__name__
)
def test_specs_are_small_frozen_and_name_their_paper(slot):
    specs = [*registry.specs(slot).values(), Corruption]
    for spec in (spec for spec in specs if spec.__module__.startswith("clozeworks.")):
        assert len(dataclasses.fields(spec)) <= 8
        assert spec.__dataclass_params__.frozen
        assert spec.paper


@pytest.mark.parametrize("objective", CASES)
def test_a_recipe_can_write_it(objective):
    plain = json.loads(json.dumps(config.plain(objective)))
    assert config.read(Objective, plain) == objective
    assert hash(objective) == hash(config.read(Objective, plain))


@pytest.mark.parametrize("objective", CASES)
def test_a_batch_is_a_pure_function(objective, source):
    batch, again = (objective.batch(clean(), 5, source) for _ in range(2))
    assert same(batch, again)
    assert set(batch.targets) == set(objective.loss_names)
    hides = batch.ids.tolist() != clean().ids.tolist()
    assert len(batch.ids) == len(batch.types) == sum(batch.lengths)
    if hides:
        assert not same(batch, objective.batch(clean(), 6, source))
        assert not same(batch, objective.batch(clean(epoch=1), 5, source))
        assert not same(batch, objective.batch(clean(first=900), 5, source))


def same(left, right) -> bool:
    parts = all(
        np.array_equal(values, right.targets[name][key])
        for name, part in left.targets.items()
        for key, values in part.items()
    )
    return parts and np.array_equal(left.ids, right.ids)


def answers(batch):
    """What is asked of each text whose answers are texts; nothing if they are not."""
    found = [[] for _ in batch.lengths]
    for part in batch.targets.values():
        if "lengths" in part:
            cut = np.split(part["answers"], np.cumsum(part["lengths"])[:-1])
            found = [[*own, more.tolist()] for own, more in zip(found, cut, strict=True)]
    return found


@pytest.mark.parametrize("objective", CASES)
def test_neighbours_size_and_order_change_nothing(objective, source):
    whole = clean()
    together = objective.batch(whole, 5, source)
    pieces = np.split(together.ids, np.cumsum(together.lengths)[:-1])
    asked = answers(together)
    groups = np.arange(len(whole)).reshape(-1, whole.views)
    for chosen in (*groups, groups[::-1].ravel(), groups[[2, 0]].ravel()):
        alone = objective.batch(some(whole, chosen), 5, source)
        expected = np.concatenate([pieces[number] for number in chosen])
        assert alone.ids.tolist() == expected.tolist()
        assert answers(alone) == [asked[number] for number in chosen]
    counts = [objective.batch(some(whole, group), 5, source).counts() for group in groups]
    assert together.counts() == {
        name: sum(count[name] for count in counts) for name in objective.loss_names
    }


@pytest.mark.parametrize("objective", CASES)
def test_what_is_hidden_is_asked_and_nothing_else(objective, source):
    whole = clean(groups=40)
    batch = objective.batch(whole, 5, source)
    assert batch.ids.dtype == np.int64
    if len(batch.ids) != len(whole.ids):
        assert_each_token_is_shown_or_asked(whole, batch)
        return
    changed = batch.ids != whole.ids
    assert not changed[whole.special].any(), "a special token was hidden"
    places = [part["positions"] for part in batch.targets.values() if "positions" in part]
    asked = np.zeros(len(whole.ids), bool)
    for place_ in places:
        asked[place_] = True
    assert not changed[~asked].any(), "a token was changed and nobody asks for it"
    for part in (part for part in batch.targets.values() if "positions" in part):
        assert (whole.ids[part["positions"]] == part["answers"]).all()
        # An answer stands in the input only where it was kept, or drawn, by law: one in ten.
        assert (batch.ids[part["positions"]] == part["answers"]).mean() < 0.2


def assert_each_token_is_shown_or_asked(whole, batch):
    """Where texts are rewritten, each token of text is shown or asked, and never both."""
    rows = np.split(whole.ids, np.cumsum(whole.lengths)[:-1])
    shown = np.split(batch.ids, np.cumsum(batch.lengths)[:-1])
    for row, seen, (asked,) in zip(rows, shown, answers(batch), strict=True):
        text = [[token for token in ids if 5 <= token < TEXT] for ids in (row, seen, asked)]
        assert sorted(text[0]) == sorted(text[1] + text[2]), "a token was lost, or given away"
        assert text[2], "nothing is asked"
        # So is what stands between texts; an answer has an end of its own.
        special = [[token for token in ids if token in SPECIAL] for ids in (row, seen, asked[:-1])]
        assert sorted(special[0]) == sorted(special[1] + special[2])
        assert asked[-1] == 3, "an answer has no end"


@pytest.mark.parametrize("objective", CASES)
def test_gradients_reach_the_heads_it_uses(objective, source):
    model = built(objective)
    batch = objective.batch(clean(), 5, source)
    loss = objective.loss(model, batch.tensors())
    assert set(loss.terms) == set(objective.loss_names)
    assert {name: cost.count for name, cost in loss.terms.items()} == batch.counts()
    loss.value().backward()
    for name in objective.heads(model.blueprint):
        for key, parameter in model.heads[name].named_parameters():
            assert parameter.grad is not None and parameter.grad.any(), f"{name}.{key}"
    assert model.encoder.layers[0].get_submodule("attention").part.value.weight.grad.any()
    for name, cost in loss.terms.items():
        assert torch.isfinite(cost.total) and cost.total > 0, name
        assert 0 <= cost.correct <= cost.count, name


@pytest.mark.parametrize("objective", CASES)
def test_micro_batches_add_up_to_one_batch(objective, source):
    whole = clean()
    groups = np.arange(len(whole)).reshape(-1, whole.views)
    batches = [
        objective.batch(some(whole, part.ravel()), 5, source) for part in (groups[:1], groups[1:])
    ]
    counts = {name: sum(batch.counts()[name] for batch in batches) for name in objective.loss_names}
    model = built(objective)

    def step(pieces, counts=None):
        model.zero_grad()
        values = [objective.loss(model, piece.tensors()).value(counts) for piece in pieces]
        sum(values).backward()
        grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        return sum(values).item(), torch.cat(grads)

    value, gradient = step(batches, counts)
    big, big_gradient = step([objective.batch(whole, 5, source)])
    if objective.couples_examples:
        assert abs(value - big) > 1e-6, "it says its examples depend on each other"
        return
    assert value == pytest.approx(big, abs=1e-12 * max(1, abs(big)))
    scale = max(1.0, big_gradient.abs().max().item())
    assert (gradient - big_gradient).abs().max().item() < 1e-12 * scale
    # The mean of means, which is what one gets without the counts, is another number.
    if len(set(batches[0].counts().values())) > 1:
        wrong = sum(objective.loss(model, piece.tensors()).value().item() for piece in batches) / 2
        assert abs(wrong - big) > 1e-6


@pytest.mark.parametrize("objective", CASES)
def test_float32_agrees_too(objective, source):
    if objective.couples_examples:
        pytest.skip("its examples depend on each other")
    whole = clean()
    groups = np.arange(len(whole)).reshape(-1, whole.views)
    model = built(objective).float()
    pieces = [
        objective.batch(some(whole, part.ravel()), 5, source) for part in (groups[:2], groups[2:])
    ]
    big = objective.batch(whole, 5, source)
    value = sum(objective.loss(model, piece.tensors()).value(big.counts()) for piece in pieces)
    assert value.item() == pytest.approx(
        objective.loss(model, big.tensors()).value().item(), rel=1e-6
    )
