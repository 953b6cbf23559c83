"""Which known name a message proposes: for slips of the fingers, never for another word."""

import pytest

from clozeworks.errors import UnknownName, nearest
from clozeworks.families.family import families, family, published_sizes


@pytest.mark.parametrize(
    ("typed", "known", "meant"),
    [
        ("clasify", ("classify", "compare"), "classify"),  # left out
        ("classiffy", ("classify", "compare"), "classify"),  # added
        ("wordpeice", ("bpe", "wordpiece"), "wordpiece"),  # swapped
        ("cosime", ("cosine", "linear"), "cosine"),  # changed
        ("dgo", ("dog",), "dog"),
        ("txt", ("text", "label"), "text"),
        ("men", ("mean", "max"), "mean"),
        ("adamw", ("adam_w", "lion"), "adam_w"),
        ("BERT", ("albert", "bert"), "bert"),
        ("xlm_roberta", ("roberta", "xlm-roberta"), "xlm-roberta"),
        ("tags", ("tag", "answer"), "tag"),
        ("dropped", ("drop", "refuse"), "drop"),
        ("pool", ("pooling", "labels"), "pooling"),
        ("bert-bse", ("bert-base", "bert-tiny"), "bert-base"),
        ("t5-v1.1-base", ("t5-base", "t5-v1_1-base"), "t5-v1_1-base"),
        ("roberat", ("deberta", "roberta"), "roberta"),
    ],
)
def test_slips_have_a_proposal(typed, known, meant):
    assert nearest(typed, known) == meant


@pytest.mark.parametrize(
    ("typed", "known"),
    [
        ("camembert", ("albert", "bert", "modernbert")),
        ("max", ("mix",)),
        ("qwen3", ("qwen2",)),
        ("gpt3", ("gpt2",)),
        ("bertweet", ("bert",)),
        ("roberta-prelayernorm", ("roberta",)),
        ("mpnet", ("mt5", "xlnet")),
        ("big_bird", ("bert",)),
        ("gemma", ("llama",)),
        ("a", ("b", "c")),
        ("", ("bert",)),
        ("negative", ("positive",)),
        ("---", ("bert",)),
    ],
)
def test_other_words_have_none(typed, known):
    assert nearest(typed, known) is None


@pytest.mark.parametrize(
    "other",
    ["bart", "big_bird", "bloom", "fnet", "funnel", "gemma", "gpt_neo", "gpt_neox", "gptj",
     "ibert", "layoutlm", "longformer", "luke", "mega", "mixtral", "mobilebert", "mpnet", "nezha",
     "nystromformer", "opt", "pegasus", "phi", "qwen3", "reformer", "rembert", "roformer",
     "squeezebert", "xlm", "xlm-roberta-xl", "xmod", "yoso"],
)  # fmt: skip
def test_published_types_of_others_are_not_misspelled(other):
    with pytest.raises(UnknownName) as caught:
        family(other)
    assert "Did you mean" not in str(caught.value)


def test_a_misspelled_type_has_a_proposal():
    with pytest.raises(UnknownName, match=r"config.json: model_type is 'robreta'; .*'roberta'\?$"):
        family("robreta")


@pytest.mark.parametrize("known", [*families(), *published_sizes()])
def test_a_doubled_letter_of_a_type_or_size_is_found(known):
    place = min(place for place, letter in enumerate(known) if letter.isalpha())
    names = {*families(), *published_sizes()}
    typed = known[:place] + known[place] + known[place:]
    assert nearest(typed, names) == known or typed in names
