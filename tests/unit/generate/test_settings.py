"""Settings of generation as a person names them, and those that contradict each other."""

import pytest

from clozeworks.errors import SettingError, UnknownName
from clozeworks.generate.beams import Beams
from clozeworks.generate.logits_processors import MinP, Temperature, TopK, TopP, Typical
from clozeworks.generate.settings import Drawing, Ending, Generation, Wording


def test_settings_go_where_they_belong():
    found = Generation.of(
        max_new_tokens=9,
        stop=["x"],
        top_p=0.9,
        seed=4,
        repetition_penalty=1.2,
        bad_words=["no"],
        num_return_sequences=3,
    )
    assert found == Generation(
        ending=Ending(max_new_tokens=9, stop=("x",)),
        wording=Wording(repetition_penalty=1.2, bad_words=("no",)),
        drawing=Drawing(top_p=0.9, seed=4),
        num_return_sequences=3,
    )


def test_nothing_said_takes_the_likeliest_token():
    assert Generation.of() == Generation()
    assert Generation.of(temperature=0) == Generation()
    assert Generation.of(temperature=None, num_beams=1) == Generation()


def test_one_string_is_one_word_and_not_its_letters():
    found = Generation.of(stop=".", bad_words="cat", required_words="dog")
    assert found.ending.stop == (".",)
    assert (found.wording.bad_words, found.wording.required_words) == (("cat",), ("dog",))


def test_beams():
    found = Generation.of(
        num_beams=4,
        length_penalty=0.6,
        early_stopping="never",
        num_beam_groups=2,
        diversity_penalty=0.5,
    )
    assert found.beams == Beams(
        num_beams=4,
        length_penalty=0.6,
        early_stopping="never",
        num_beam_groups=2,
        diversity_penalty=0.5,
    )


def test_what_shapes_a_draw_has_a_fixed_order():
    drawing = Generation.of(typical=0.9, min_p=0.1, top_p=0.8, top_k=5, temperature=0.7).drawing
    assert [type(rule) for rule in drawing.rules()] == [Temperature, TopK, TopP, MinP, Typical]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens is 0; it must be at least 1."),
        (
            {"max_new_tokens": 3, "min_new_tokens": 4},
            "min_new_tokens is 4; it must be from 0 to `max_new_tokens`, 3.",
        ),
        ({"stop": ("a", "")}, "stop is ['a', '']; an empty string occurs everywhere"),
        ({"bad_words": (" ",)}, "bad_words is [' ']; one of them is empty or white space"),
        (
            {"bad_words": ("a",), "required_words": ("a",)},
            "bad_words is 'a'; `required_words` lists it, too",
        ),
        (
            {"first_tokens": ("a", "b"), "max_new_tokens": 1},
            "first_tokens is ['a', 'b']; they are 2, and `max_new_tokens` is 1; raise it",
        ),
        ({"seed": -1}, "seed is -1; it must be at least 0"),
        ({"top_k": 0}, "top_k is 0; it must be at least 1."),
        (
            {"temperature": -1.0},
            "temperature is -1.0; it must be a finite number and at least 0.001; set 0",
        ),
        (
            {"temperature": 1e-40},
            "temperature is 1e-40; it must be a finite number and at least 0.001; set 0 for greedy",
        ),
        ({"num_return_sequences": 0}, "num_return_sequences is 0; it must be at least 1."),
        (
            {"num_return_sequences": 2},
            "num_return_sequences is 2; greedy decoding gives one text; set `sample`",
        ),
        ({"top_logprobs": -1}, "top_logprobs is -1; it must be at least 0."),
        ({"num_beams": 3, "sample": True}, "num_beams is 3; a beam search does not sample tokens"),
        (
            {"num_beams": 4, "num_beam_groups": 2, "top_p": 0.5},
            "num_beams is 4; a beam search does not sample tokens",
        ),
        (
            {"num_beams": 2, "num_return_sequences": 3},
            "num_return_sequences is 3; a search finds at most `num_beams` texts, 2",
        ),
        (
            {"num_beams": 2, "top_logprobs": 3},
            "top_logprobs is 3; a beam search shows no alternatives",
        ),
        ({"num_beams": 0}, "num_beams is 0; it must be at least 1."),
        ({"num_beam_groups": 2}, "groups is 2; it has no effect without a beam search"),
        (
            {"early_stopping": True, "num_beams": 1},
            "early_stopping is True; it has no effect without a beam search",
        ),
        (
            {"sample": False, "top_p": 0.9},
            "top_p is 0.9; it has no effect where no token is sampled",
        ),
        (
            {"temperature": 0, "top_p": 0.9},
            "top_p is 0.9; it has no effect where no token is sampled",
        ),
        ({"sample": "no"}, "sample is 'no'; it must be"),
        ({"temperature": 0, "sample": True}, "temperature is 0; `sample` needs one above 0"),
        (
            {"presence_penalty": float("nan")},
            "presence_penalty is nan; it must be at least -10,000 and at most",
        ),
        (
            {"frequency_penalty": float("inf")},
            "frequency_penalty is inf; it must be at least -10,000 and at most",
        ),
        ({"temperature": float("inf")}, "temperature is inf; it must be a finite number"),
        (
            {"num_beams": 2, "length_penalty": 1e9},
            "length_penalty is 1000000000.0; it must be at least -10 and at most 10",
        ),
        (
            {"num_beams": 2, "length_penalty": float("nan")},
            "length_penalty is nan; it must be at least -10",
        ),
        (
            {"num_beams": 2, "early_stopping": "soon"},
            "early_stopping is 'soon'; it must be one of True, False, 'never'",
        ),
        (
            {"num_beams": 2, "num_beam_groups": 2, "diversity_penalty": float("nan")},
            "diversity_penalty is nan; it must be a",
        ),
        (
            {"num_beams": 4, "num_beam_groups": 2},
            "num_beam_groups is 2; with `diversity_penalty` 0.0 all groups would find the",
        ),
        ({"max_new_tokens": "5"}, "max_new_tokens is '5'; it must be int."),
        ({"top_k": 2.5}, "top_k is 2.5; it must be int."),
        ({"seed": 1.5}, "seed is 1.5; it must be int."),
        ({"temperature": "hot"}, "temperature is 'hot'; it must be float."),
        ({"stop": 5}, "stop is 5; it must be a list."),
        ({"stop": [5]}, "stop[0] is 5; it must be str."),
        ({"num_beams": "2"}, "num_beams is '2'; it must be int."),
        ({"num_return_sequences": 2.0}, "num_return_sequences is 2.0; it must be int."),
    ],
    ids=str,
)
def test_contradictions(settings, said):
    with pytest.raises(SettingError) as error:
        Generation.of(**settings)
    assert said in str(error.value)


def test_unknown_names():
    with pytest.raises(UnknownName, match=r"setting is 'max_tokens'; known: .*tokens"):
        Generation.of(max_tokens=3)
    with pytest.raises(UnknownName, match="Did you mean 'top_p'"):
        Generation.of(topp=3)
