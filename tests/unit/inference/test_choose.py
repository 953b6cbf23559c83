"""Labels chosen by likelihood, and prompts that show a task by examples."""

from math import log

import pytest

import clozeworks as cw
from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.inference.choose import Chosen, choose, parts
from clozeworks.inference.few_shot import FewShot, demonstrations
from clozeworks.inference.likelihood import Scored
from clozeworks.text.tokenizer.styles import GPT2_STYLE
from clozeworks.text.training.train import train_from_iterator

GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 40}
EXAMPLES = [(f"text {number}", "yes" if number % 2 else "no") for number in range(20)]


def told(logs, asked):
    """A scorer that says what a table says of (prompt, continuation), and notes the questions."""

    def score(prompts, continuations, places):
        asked.extend(zip(prompts, continuations, strict=True))
        found = [logs[pair] for pair in zip(prompts, continuations, strict=True)]
        return [Scored(["x"] * len(own), list(own)) for own in found]

    return score


LOGS = {
    ("film: ", "good"): [log(0.3)],
    ("film: ", "not good"): [log(0.5), log(0.5)],
    (": ", "good"): [log(0.2)],
    (": ", "not good"): [log(0.5), log(0.02)],
}


@pytest.mark.parametrize(
    ("normalize", "label", "scores"),
    [
        ("none", "good", (log(0.3), log(0.25))),
        ("token", "not good", (log(0.5), log(0.3))),
        ("unconditional", "not good", (log(0.25 / 0.01), log(0.3 / 0.2))),
    ],
)
def test_three_ways_to_compare(normalize, label, scores):
    found = choose(
        told(LOGS, []), ["film"], ["good", "not good"], template="{text}: {label}",
        normalize=normalize,
    )[0]  # fmt: skip
    assert found.label == label
    assert list(found.scores.values()) == pytest.approx(list(scores))
    assert found.lead == pytest.approx(scores[0] - scores[1])


def test_what_stands_before_is_left_out_where_the_text_is():
    asked = []
    logs = {("a\nfilm: ", label): [-1.0] for label in "xy"} | {
        (": ", label): [0.0] for label in "xy"
    }
    choose(
        told(logs, asked), ["film"], ["x", "y"], template="{text}: {label}",
        normalize="unconditional", before=["a\n"],
    )  # fmt: skip
    assert asked == [("a\nfilm: ", "x"), ("a\nfilm: ", "y"), (": ", "x"), (": ", "y")]


def test_braces_of_a_text_stay():
    assert parts("{text} -> {label}!", "a {label} {text} {0}", "b") == (
        "a {label} {text} {0} -> ",
        "b!",
    )


@pytest.mark.parametrize(
    ("error", "sentence", "labels", "options"),
    [
        (InputError, "labels is []; it must be a list of at least two labels.", [], {}),
        (InputError, "labels is 'ab'; it must be a list of at least two labels.", "ab", {}),
        (InputError, "a label is ' '; it must be a str with at least one word.", ["a", " "], {}),
        (InputError, "the label 'a' is listed twice; remove one.", ["a", "a"], {}),
        (
            SettingError,
            "template is '{text}'; it must contain {text} and {label} once each; write, for "
            "example, '{text}\\nAnswer: {label}'.",
            ["a", "b"],
            {"template": "{text}"},
        ),
        (
            SettingError,
            "template is '{label}: {text}'; {label} must come after {text}, because it is "
            "scored as a continuation; change their order.",
            ["a", "b"],
            {"template": "{label}: {text}"},
        ),
        (
            SettingError,
            "template is '{text} {label}'; to score a label without the text, a word must come "
            "before it, as in '{text}\\nAnswer: {label}'; add one, or compare by token.",
            ["a", "b"],
            {"template": "{text} {label}", "normalize": "unconditional"},
        ),
    ],
)  # fmt: skip
def test_complaints(error, sentence, labels, options):
    def score(prompts, continuations, places):
        return [Scored(["x"], [0.0]) for _ in prompts]

    with pytest.raises(error) as caught:
        choose(score, ["film"], labels, **options)
    assert str(caught.value) == sentence


def test_what_stands_before_must_be_there_for_each_text():
    with pytest.raises(InputError) as caught:
        choose(told({}, []), ["film"], ["a", "b"], before=[])
    assert str(caught.value) == (
        "before has 0 texts and texts has 1; each text needs one; give lists of equal length."
    )


def test_messages_name_the_text():
    model = cw.new(
        "byt5-small", heads=("decoder", "vocabulary"), d_model=16, d_ff=8, num_layers=1,
        num_decoder_layers=1, num_heads=2,
    )  # fmt: skip
    model.tokenizer.max_length = 20
    with pytest.raises(InputError) as caught:
        model.choose(["a", "a", "b" * 30], ["x", "y"], source_locations=["row 1", "row 2", "row 3"])
    assert str(caught.value) == (
        "row 3 has 40 tokens; at most 20 are allowed (2 of 6 texts are too long); shorten it."
    )


def test_an_unknown_way_to_compare():
    with pytest.raises(UnknownName, match="normalize is 'words'; known: none, token, uncond"):
        choose(told({}, []), ["film"], ["a", "b"], normalize="words")


@pytest.fixture(scope="module")
def gpt2():
    texts = ["The cat sat on the mat.", "A dog ran", "text 1 -> yes", "text 2 -> no"]
    tokenizer = train_from_iterator(texts * 3, kind="bpe", size=300, style=GPT2_STYLE)
    return cw.new("gpt2", tokenizer, initializer_range=0.2, **GPT2)


def test_a_model_chooses(gpt2):
    labels = ["yes", "no, not at all"]
    found = gpt2.choose("The cat", labels, normalize="none")
    assert isinstance(found, Chosen)
    for label in labels:
        expected = gpt2.score("The cat\nAnswer: ", label).total
        assert found.scores[label] == pytest.approx(expected, abs=1e-5)
    several = gpt2.choose(["The cat", "A dog"], labels, normalize="none")
    assert several[0].scores == pytest.approx(found.scores, abs=1e-5)


class TestDemonstrations:
    def test_description_examples_and_separators(self):
        shown = demonstrations(["new"], EXAMPLES[:2], FewShot(shots=2, description="Yes or no?"))
        orders = ("text 0 -> no\n\ntext 1 -> yes\n\n", "text 1 -> yes\n\ntext 0 -> no\n\n")
        assert shown.texts[0] in [f"Yes or no?\n\n{order}" for order in orders]
        assert shown.shots == [2] and shown.dropped == 0

    def test_drawn_by_the_seed_and_for_each_text(self):
        texts = ["a", "b", "c"]
        first = demonstrations(texts, EXAMPLES, FewShot(shots=4, seed=1))
        assert first == demonstrations(texts, EXAMPLES, FewShot(shots=4, seed=1))
        assert first.texts != demonstrations(texts, EXAMPLES, FewShot(shots=4, seed=2)).texts
        assert len(set(first.texts)) == 3
        assert first.texts[:1] == demonstrations(["a"], EXAMPLES, FewShot(shots=4, seed=1)).texts

    def test_all_examples_are_drawn_alike(self):
        shown = demonstrations(["q"] * 2000, EXAMPLES, FewShot(shots=5)).texts
        counts = [sum(f"{text} ->" in one for one in shown) for text, _ in EXAMPLES]
        expected = 2000 * 5 / 20
        assert sum((count - expected) ** 2 for count in counts) / expected < 40

    def test_a_text_is_not_shown_to_itself(self):
        shown = demonstrations(["text 3"] * 20, EXAMPLES, FewShot(shots=20))
        assert not any("text 3 ->" in text for text in shown.texts)
        assert shown.shots == [19] * 20 and (shown.dropped, shown.missing) == (0, 20)
        assert demonstrations(["text 3"], EXAMPLES, FewShot(shots=19)).missing == 0

    def test_what_does_not_fit_is_left_out_and_counted(self):
        def words(texts):
            return [len(text.split()) for text in texts]

        shown = demonstrations(["a b"], EXAMPLES, FewShot(shots=5), max_length=13, count=words)
        # The prompt and a label take 4 words, a demonstration 4.
        assert shown.shots == [2] and shown.dropped == 3
        whole = demonstrations(["a b"], EXAMPLES, FewShot(shots=5))
        assert whole.texts[0].endswith(shown.texts[0])
        assert demonstrations(
            ["a b"], EXAMPLES, FewShot(shots=5), max_length=2, count=words
        ).shots == [0]

    def test_a_model_knows_its_room(self, gpt2):
        shown = gpt2.demonstrations(["The cat"], EXAMPLES, FewShot(shots=9))
        assert 0 < shown.shots[0] < 9 and shown.dropped == 9 - shown.shots[0]
        whole = shown.texts[0] + "The cat -> yes"
        assert len(gpt2.tokenizer.encode([whole])[0]) <= 40

    @pytest.mark.parametrize(
        ("sentence", "options"),
        [
            ("shots is -1; it must be at least 0.", {"shots": -1}),
            ("seed is -1; it must be at least 0 and below 2**63.", {"seed": -1}),
        ],
    )
    def test_settings(self, sentence, options):
        with pytest.raises(SettingError) as caught:
            FewShot(**options)
        assert str(caught.value) == sentence

    def test_too_few_examples(self):
        with pytest.raises(InputError) as caught:
            demonstrations(["a"], EXAMPLES[:3], FewShot(shots=4))
        assert str(caught.value) == (
            "shots is 4 and there are 3 examples; each is used once; add examples, or lower shots."
        )
