"""Sentinels in inputs and targets, and what T5 learns from them."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clozeworks.core.context import AttentionSource as Encoded
from clozeworks.core.layout import Layout
from clozeworks.data.examples.example_arrays import lay_out
from clozeworks.errors import SettingError, TokenizerError
from clozeworks.families.bert import FAMILY as BERT
from clozeworks.families.family import Config
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.objectives.noise.alternating_spans import AlternatingSpans
from clozeworks.objectives.noise.budget import Bernoulli
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.sentinels import corrupt
from clozeworks.objectives.noise.single_tokens import SingleTokens
from clozeworks.objectives.span_corruption import SpanCorruption
from clozeworks.rng import RandomStream
from clozeworks.text.tokenizer.templates import Template

PAD, END = 0, 1
T5 = Template(((), (END,)), ((), (0,)), (0,))
SENTINELS = np.arange(199, 99, -1)
NAMED = {f"<extra_id_{number}>": int(one) for number, one in enumerate(SENTINELS)}
SOURCE = Vocabularies(
    200, named=NAMED, start_id=PAD, end_id=END, special_ids=(0, 1, *NAMED.values())
)


def texts(tokens, first=0):
    """Texts as T5 writes them, closed by the end."""
    sizes = np.array([[len(ids)] for ids in tokens]).reshape(-1, 1)
    numbers = np.arange(first, first + len(sizes))
    flat = np.concatenate([np.zeros(0, np.int64), *(np.array(ids, np.int64) for ids in tokens)])
    more = {"epochs": np.zeros_like(numbers), "indices": numbers}
    return lay_out(T5, sizes, flat, np.ones(len(flat), bool), **more)


def rows(ids, lengths):
    return [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])]


def merged(inputs, targets):
    """The text again: what either has for a sentinel stands in the other."""
    assert inputs[-1] == targets[-1] == END
    sentinels = set(SENTINELS.tolist())
    pieces = []
    for ids in (inputs[:-1], targets[:-1]):
        runs = [[]]
        for token in ids:
            runs[-1].append(token) if token not in sentinels else runs.append([])
        pieces.append(runs)
    # Kept and hidden runs in turn; whichever side begins with text begins.
    kept, hidden = pieces
    if kept[0]:
        assert not hidden[0]
        hidden = hidden[1:]
        order = [run for pair in zip(kept, [*hidden, []], strict=False) for run in pair]
    else:
        kept = kept[1:]
        order = [run for pair in zip(hidden, [*kept, []], strict=False) for run in pair]
    return [token for run in order for token in run]


@pytest.mark.parametrize(
    "hide",
    [
        AlternatingSpans(),
        AlternatingSpans(roll=True),
        AlternatingSpans(fraction=0.5, mean=3.0),
        AlternatingSpans(fraction=0.25, mean=None),
        SingleTokens(budget=Bernoulli(fraction=0.15)),
    ],
    ids=["t5", "rolled", "half", "suffix", "iid"],
)
def test_inputs_and_targets_give_the_text_again(hide):
    generator = np.random.default_rng(0)
    originals = [
        generator.integers(2, 100, size).tolist() for size in generator.integers(2, 90, 10_000)
    ]
    objective = SpanCorruption(hide=hide)
    batch = objective.batch(texts(originals), 1, SOURCE)
    part = batch.targets["span_corruption"]
    inputs, targets = rows(batch.ids, batch.lengths), rows(part["answers"], part["lengths"])
    assert [merged(a, b) for a, b in zip(inputs, targets, strict=True)] == originals
    assert not part["merged"].any()
    plain = isinstance(hide, AlternatingSpans) and not hide.roll
    for shown, asked in zip(inputs[:500], targets[:500], strict=True):
        left, right = ([token for token in ids if token >= 100] for ids in (shown, asked))
        for used in (left, right):  # descending from the first, none left out
            assert used == SENTINELS[: len(used)].tolist()
        assert left == right or not plain
        assert asked[-2] < 100 or not plain, "T5's masks hide the end: no sentinel closes them"


def test_the_decoder_reads_the_answer_behind_its_start():
    batch = SpanCorruption().batch(texts([range(2, 60), range(3, 30)]), 1, SOURCE)
    part = batch.targets["span_corruption"]
    for read, asked in zip(
        rows(part["read"], part["lengths"]), rows(part["answers"], part["lengths"]), strict=True
    ):
        assert read == [PAD, *asked[:-1]]


def test_the_example_of_the_paper():
    """Thank you <X> me to your party <Y> week; <X> for inviting <Y> last <Z>."""
    ids = list(range(2, 13))  # Thank you for inviting me to your party last week .
    clean = texts([ids])
    x, y, z = SENTINELS[:3].tolist()
    found = corrupt(clean, np.array([2, 3, 8]), SENTINELS, END)
    assert found.inputs.tolist() == [*ids[:2], x, *ids[4:8], y, *ids[9:], END]
    assert found.targets.tolist() == [x, *ids[2:4], y, ids[8], z, END]
    # The same with a hidden end: nothing closes the target.
    found = corrupt(clean, np.array([2, 3, 8, 9, 10]), SENTINELS, END)
    assert found.inputs.tolist() == [*ids[:2], x, *ids[4:8], y, END]
    assert found.targets.tolist() == [x, *ids[2:4], y, *ids[8:], END]


def test_published_lengths():
    batch = SpanCorruption().batch(texts([[7] * 568] * 3), 0, SOURCE)
    part = batch.targets["span_corruption"]
    assert batch.lengths.tolist() == [512] * 3 and part["lengths"].tolist() == [114] * 3
    assert batch.types.tolist() == [0] * len(batch.ids)


def test_more_spans_than_sentinels_are_one_with_the_last():
    few = {name: NAMED[name] for name in list(NAMED)[:3]}
    source = Vocabularies(200, named=few, start_id=PAD, end_id=END)
    originals = [list(range(2, 90)), list(range(2, 10)), list(range(5, 95))]
    for hide in (AlternatingSpans(), SingleTokens()):
        batch = SpanCorruption(hide=hide).batch(texts(originals), 1, source)
        part = batch.targets["span_corruption"]
        assert (part["merged"] > 0).tolist() == [True, False, True]
        inputs, targets = rows(batch.ids, batch.lengths), rows(part["answers"], part["lengths"])
        assert [merged(a, b) for a, b in zip(inputs, targets, strict=True)] == originals
        whole = SpanCorruption(hide=hide).batch(texts(originals), 1, SOURCE)
        # What comes before the last sentinel is as it was.
        first = rows(whole.ids, whole.lengths)[0]
        cut = inputs[0].index(int(SENTINELS[1]))
        assert inputs[0][:cut] == first[:cut]
    alone = AlternatingSpans().positions(
        texts(originals), Draws.of(texts(originals), RandomStream(1, "objective/span_corruption"))
    )
    spans = 1 + np.count_nonzero(np.diff(alone[alone < 88]) > 1)
    found = SpanCorruption().batch(texts(originals), 1, source)
    assert found.targets["span_corruption"]["merged"][0] == spans - 3 > 0


def test_bytes_have_their_own_sentinels():
    source = Vocabularies(384, start_id=PAD, end_id=END)
    hide = AlternatingSpans(mean=20.0)
    objective = SpanCorruption(hide=hide, sentinels="bytes")
    batch = objective.batch(texts([[70] * 1193]), 1, source)
    used = [token for token in batch.ids.tolist() if token not in (70, END)]
    assert used == [258 - number for number in range(len(used))] and len(used) == 9
    assert batch.lengths.tolist() == [1024]
    assert batch.targets["span_corruption"]["lengths"].tolist() == [189]
    with pytest.raises(SettingError) as caught:
        objective.batch(texts([[70] * 50]), 1, Vocabularies(200, start_id=0, end_id=1))
    assert str(caught.value) == (
        "sentinels is 'bytes'; the first sentinel is 258, and the tokenizer has 200 tokens; use "
        "a tokenizer of bytes, or set `sentinels` to 'named'."
    )
    with pytest.raises(SettingError) as caught:
        SpanCorruption(sentinels="letters")
    assert str(caught.value) == "sentinels is 'letters'; it must be 'named' or 'bytes'."


def test_tokenizers_that_cannot_write_it():
    def complaint(source):
        with pytest.raises(TokenizerError) as caught:
            SpanCorruption().batch(texts([[5] * 20]), 0, source)
        return str(caught.value)

    assert complaint(Vocabularies(200, start_id=0, end_id=1)) == (
        "the tokenizer has no token <extra_id_0>; a masked span is shown as a sentinel; train a "
        "tokenizer that has them: clozeworks tokenizer train … --family t5."
    )
    assert complaint(Vocabularies(200, named=NAMED, end_id=1)) == (
        "the tokenizer's pad token is None; a decoder begins with it; train a tokenizer that has "
        "one: clozeworks tokenizer train … --family t5."
    )
    assert complaint(Vocabularies(200, named=NAMED, start_id=0)) == (
        "the tokenizer's last token is None; it says where an answer ends; train a tokenizer that "
        "has one: clozeworks tokenizer train … --family t5."
    )


def test_the_loss_is_that_of_each_text_alone(tiny):
    objective = SpanCorruption()
    model = tiny("t5", objective)
    batch = objective.batch(texts([range(2, 60), range(3, 30)]), 1, SOURCE)
    part = batch.targets["span_corruption"]
    expected = 0
    for shown, asked in zip(
        rows(batch.ids, batch.lengths), rows(part["answers"], part["lengths"]), strict=True
    ):
        ids, answers = torch.tensor(shown), torch.tensor(asked)
        layout = Layout([len(ids)])
        encoded = Encoded(model(ids, layout), layout)
        read = torch.tensor([PAD, *asked[:-1]])
        scores = model.heads["vocabulary"](model.decode(read, Layout([len(read)]), encoded))
        expected += F.cross_entropy(scores, answers, reduction="sum")
    loss = objective.loss(model, batch.tensors())
    assert loss.terms["span_corruption"].total.item() == pytest.approx(expected.item(), rel=1e-12)
    loss.value().backward()
    assert model.decoder.layers[0].get_submodule("cross_attention").part.key.weight.grad.any()


def test_models_without_a_decoder():
    for objective in (SpanCorruption(),):
        with pytest.raises(SettingError) as caught:
            objective.check(BERT.blueprint(Config(BERT.published("bert-tiny")), {"vocabulary"}))
        assert str(caught.value) == (
            "objective.kind is 'span_corruption'; it shows a text to an encoder and lets a "
            "decoder predict what is masked, and the model has no decoder; choose a family "
            "that has both, such as t5."
        )


def test_the_spans_serve_masked_language_modelling_too(examples, source):
    clean = examples([40, 20])
    batch = MaskedLM(hide=AlternatingSpans()).batch(clean, 0, source)
    assert batch.counts() == {"masked_lm": 6 + 3}


def test_texts_without_an_end_token_do_not_run_into_each_other():
    """A run that ends one example and one that begins the next are two, with a sentinel each."""
    bare = Template(((), ()), ((), ()), (0,))
    flat = np.array([11, 12, 13, 21, 22, 23])
    clean = lay_out(
        bare,
        np.array([[3], [3]]),
        flat,
        np.ones(6, bool),
        epochs=np.zeros(2, int),
        indices=np.arange(2),
    )
    first, second = SENTINELS[:2]
    both = corrupt(clean, np.array([2, 3]), SENTINELS, END)
    assert rows(both.inputs, both.input_lengths) == [[11, 12, first], [first, 22, 23]]
    assert rows(both.targets, both.target_lengths) == [[first, 13, END], [21, first, END]]
    kept = corrupt(clean, np.array([0, 1, 4, 5]), SENTINELS, END)
    assert rows(kept.inputs, kept.input_lengths) == [[first, 13], [21, first]]
    assert rows(kept.targets, kept.target_lengths) == [[11, 12, first, END], [first, 22, 23, END]]
    assert second not in both.inputs
