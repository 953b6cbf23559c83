"""Tokenizers and batches of models that write, from the command line."""

import pytest

from clozeworks.text.tokenizer.tokenizer import Tokenizer

MODES = ("[NLU]", "[NLG]", "[S2S]")


@pytest.fixture(scope="module")
def texts(made_up, tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n\n".join(made_up(number) for number in range(120)), encoding="utf-8")
    return path


@pytest.fixture
def corpus(texts, command, tmp_path):
    """A corpus for a family, built by the commands that a recipe names."""

    def make(family, *more):
        tokenizer, folder = tmp_path / f"{family}-tokenizer", tmp_path / family
        how = ("bytes",) if family == "bytes" else ("train", texts, "--family", family)
        size = () if family == "bytes" else ("--size", "400")
        made = command("tokenizer", *map(str, how), *size, *more, "--out", str(tokenizer))
        assert made.code == 0, made.err
        built = command(
            "corpus", "build", str(texts), "--tokenizer", str(tokenizer), "--out", str(folder),
            "--sentences", "whole",
        )  # fmt: skip
        assert built.code == 0, built.err
        return folder

    return make


def shown(outcome):
    """The lines of the first example."""
    assert outcome.code == 0, outcome.err
    return outcome.out.split("\n\n")[1].splitlines()


def test_a_step_of_t5(corpus, command):
    folder = str(corpus("t5"))
    head, inputs, asked, answer = shown(
        command("corpus", "batch", folder, "--objective", "t5", "--length", "40", "--show", "1")
    )
    assert head.endswith("40 tokens, 36 shown")
    assert inputs.count("<extra_id_0>") == answer.count("<extra_id_0>") == 1
    assert inputs.endswith("</s>") and answer.endswith("</s>")
    assert asked == "  span_corruption: 9 tokens are asked"


def test_a_step_of_ul2(corpus, command):
    folder = str(corpus("t5", *(word for mode in MODES for word in ("--extra", mode))))
    _, inputs, asked, _ = shown(
        command("corpus", "batch", folder, "--objective", "ul2", "--length", "40", "--show", "1")
    )
    assert inputs.split()[0] in MODES
    assert asked.startswith("  denoisers: ")


@pytest.mark.parametrize(
    ("family", "first", "last"),
    [("gpt2", None, "<|endoftext|>"), ("llama", "<|begin_of_text|>", "<|end_of_text|>")],
)
def test_a_step_of_gpt2_and_llama(family, first, last, corpus, command):
    folder = str(corpus(family))
    _, inputs, asked = shown(
        command("corpus", "batch", folder, "--objective", family, "--length", "400", "--show", "1")
    )
    words = inputs.split()
    assert words[-1] == last and (first is None or words[0] == first)
    assert asked.endswith("tokens are asked, each from those before it")


def test_a_step_of_byt5(corpus, command):
    folder = str(corpus("bytes"))
    outcome = command(
        "corpus", "batch", folder, "--objective", "byt5", "--length", "100", "--show", "1"
    )
    head, inputs, _, answer = shown(outcome)
    assert head.endswith("100 tokens, 86 shown")
    assert inputs.count("ÿ") == answer.count("ÿ") == 1  # the last byte, 258


def test_extra_tokens(texts, command, tmp_path):
    def train(family, *extra, out="tokenizer"):
        words = [word for name in extra for word in ("--extra", name)]
        target = ("--out", str(tmp_path / out))
        return command(
            "tokenizer", "train", str(texts), "--family", family, "--size", "400", *words, *target
        )

    assert train("t5", *MODES).code == 0
    tokenizer = Tokenizer.load(tmp_path / "tokenizer")
    assert tokenizer.id_of("<extra_id_0>") == tokenizer.size - 1 == 399
    assert {tokenizer.id_of(mode) for mode in MODES} <= set(tokenizer.special_ids)
    assert set(MODES) <= set(tokenizer.special.extra)
    for extra, sentence in (
        (("",), "--extra is ''; a token needs a name; leave it out."),
        (("</s>",), "--extra is '</s>'; there is such a token already; leave it out."),
        (("[A]", "[A]"), "--extra is '[A]'; there is such a token already; leave it out."),
    ):
        refused = train("t5", *extra, out="other")
        assert refused.code != 0 and sentence in refused.err
    assert not (tmp_path / "other").exists()


def test_bytes_do_not_overwrite(command, tmp_path):
    assert command("tokenizer", "bytes", "--out", str(tmp_path / "b")).code == 0
    assert Tokenizer.load(tmp_path / "b").size == 384
    assert command("tokenizer", "bytes", "--out", str(tmp_path / "b")).code != 0
    assert command("tokenizer", "bytes", "--out", str(tmp_path / "b"), "--overwrite").code == 0
