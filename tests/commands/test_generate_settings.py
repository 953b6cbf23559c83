"""`clozeworks generate`: settings it refuses, named as they are typed."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--num-beams", "4", "--num-beam-groups", "2", "--sample"], "does not sample tokens"),
        (["--num-beams", "9999"], "beams is 9,999; the vocabulary has 294 entries"),
        (["--batch-tokens", "9"], "--batch-tokens"),
        (["--temperature", "-1"], "temperature is -1.0; it must be a finite number and at least"),
        (["--early-stopping", "perhaps"], "early"),
    ],
    ids=str,
)
def test_refusals(gpt, command, arguments, said):
    found = command("generate", str(gpt), "The", *arguments)
    assert (found.code, found.out) == (2, "") and said in found.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["-n", "2"],
            "--num-return-sequences is 2; greedy decoding gives one text; set --sample, or "
            "--num-beams.",
        ),
        (["--max-new-tokens", "0"], "--max-new-tokens is 0; it must be at least 1."),
        (["--top-k", "0"], "--top-k is 0; it must be at least 1."),
        (
            ["--min-new-tokens", "5", "--max-new-tokens", "3"],
            "--min-new-tokens is 5; it must be from 0 to --max-new-tokens, 3.",
        ),
        (
            ["--num-beams", "2", "--sample"],
            "--num-beams is 2; a beam search does not sample tokens; leave it out, or "
            "--sample, --temperature, --top-k, --top-p, --min-p, --typical and "
            "--seed.",
        ),
        (
            ["--length-penalty", "2"],
            "--length-penalty is 2.0; it has no effect without a beam search; set --num-beams, or "
            "leave it out.",
        ),
        (
            ["--bad-word", "a", "--required-word", "a"],
            "--bad-word is 'a'; --required-word lists it, too; leave it out of one of them.",
        ),
        (
            ["--temperature", "0", "--sample"],
            "--temperature is 0; --sample needs one above 0; raise it, or leave out --sample.",
        ),
        (["--stop", ""], "--stop is ['']; an empty string occurs everywhere; leave it out."),
        (
            ["--num-beam-groups", "2"],
            "--num-beam-groups is 2; it has no effect without a beam search; set --num-beams, or "
            "leave it out.",
        ),
        (
            ["--diversity-penalty", "1"],
            "--diversity-penalty is 1.0; it has no effect without a beam search; set --num-beams, "
            "or leave it out.",
        ),
        (
            ["--early-stopping", "true"],
            "--early-stopping is True; it has no effect without a beam search; set --num-beams, or "
            "leave it out.",
        ),
        (
            ["--temperature", "0", "--seed", "3"],
            "--seed is 3; it has no effect where no token is sampled; leave it out.",
        ),
        (
            ["--temperature", "0", "--typical", "0.5", "--top-k", "3", "--seed", "3"],
            "--top-k is 3; it has no effect where no token is sampled; leave it and --typical and "
            "--seed out.",
        ),
        (
            ["--num-beams", "2", "--diversity-penalty", "1"],
            "--diversity-penalty is 1.0; it has no effect on one group of beams; set "
            "--num-beam-groups.",
        ),
        (
            ["--num-beams", "2", "--top-logprobs", "1"],
            "--top-logprobs is 1; a beam search shows no alternatives; leave it out, or "
            "--num-beams.",
        ),
        (
            ["--max-new-tokens", "2", "--required-word", "the dog lay on"],
            "--required-word is ['the dog lay on']; they take 4 tokens, and there is room for 2 "
            "after prompt 1; raise --max-new-tokens, or shorten the prompt.",
        ),
        (
            ["--required-word", "the dog", "--bad-word", "dog"],
            "--required-word is 'the dog'; --bad-word lists a part of it, 'dog'; leave one of them "
            "out.",
        ),
        (
            ["--required-word", "dog dog", "--no-repeat-ngram-size", "1"],
            "--required-word is 'dog dog'; it repeats 1 token, and --no-repeat-ngram-size is 1; "
            "leave one of them out.",
        ),
    ],
    ids=str,
)
def test_settings_are_named_as_they_are_typed(gpt, refused, arguments, said):
    refused(said, "generate", gpt, "The", *arguments)


@pytest.mark.parametrize(
    "word", ["top_k", "bad_words", "tokens is 3; lower it", "sample is True", "it's seed is \\'"]
)
def test_words_of_the_user_stay_as_they_were_given(gpt, refused, word):
    said = f"--bad-word is {word!r}; --required-word lists it, too; leave it out of one of them."
    refused(said, "generate", gpt, "The", "--bad-word", word, "--required-word", word)


def test_a_setting_that_does_not_fit_the_model_is_named_as_it_is_typed(gpt, command, monkeypatch):
    word = ["--required-word", "the dog lay on the rug"]
    found = command("generate", gpt, "The", "--max-new-tokens", "2", *word)
    assert found.err.startswith("clozeworks: --required-word is ['the dog lay on the rug']; ")
    assert found.err.endswith("; raise --max-new-tokens, or shorten the prompt.\n")
    monkeypatch.setattr("clozeworks.inference.prompts.available", lambda device: 1000)
    found = command("generate", gpt, "The")
    assert " prompt 1 with 128 new tokens takes " in found.err
    assert found.err.endswith("; lower it, --num-return-sequences or --num-beams.\n")
    found = command("generate", gpt, "The", "--max-new-tokens", "1", "--num-beams", "3")
    assert " prompt 1 with 1 new token and 3 texts side by side takes " in found.err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["generate", "m", "x", "--out"], "texts.jsonl"),
        (["text-to-text", "m", "x", "--out"], "texts.jsonl"),
        (["classify", "m", "x", "--out"], "answers.jsonl"),
        (["evaluate", "m", "x", "--predictions"], "predictions.jsonl"),
        (["exposure", "m", "x", "--chart"], "exposure.png"),
        (["embed", "m", "x", "--out"], "vectors.npy"),
    ],
)
def test_a_folder_is_no_file_and_a_fitting_name_is_shown(refused, tmp_path, words, name):
    said = f"{tmp_path} is a folder; name a file, such as {tmp_path / name}."
    refused(said, *words, tmp_path)
