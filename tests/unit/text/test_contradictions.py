"""Tokenizer folders that contradict themselves are refused, before anything large is built."""

import json
import time

import pytest
from tokenizers import Tokenizer as Backend

from clozeworks.errors import TokenizerError
from clozeworks.text.fast.plain import PlainText
from clozeworks.text.tokenizer.checking import tokenizer_faults
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator

ADDED = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


def change(folder, edit, name="tokenizer.json"):
    state = json.loads((folder / name).read_text(encoding="utf-8"))
    edit(state)
    (folder / name).write_text(json.dumps(state), encoding="utf-8")
    (folder / "clozeworks.json").unlink(missing_ok=True)  # as if another library had written it


def refused(folder):
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(folder)
    assert tokenizer_faults(folder) == [str(caught.value)]
    return str(caught.value)


@pytest.fixture
def lone(bert, tmp_path):
    """A folder with tokenizer.json alone."""
    bert.save(tmp_path / "lone")
    for path in (tmp_path / "lone").iterdir():
        if path.name != "tokenizer.json":
            path.unlink()
    return tmp_path / "lone"


@pytest.fixture
def pairs(roberta, tmp_path):
    roberta.save(tmp_path / "pairs")
    return tmp_path / "pairs"


def test_whole_folders_have_no_faults(bert, bert_folder, lone, pairs, gpt2_folder, tmp_path):
    bert.save(tmp_path / "whole")
    for folder in (bert_folder, lone, pairs, gpt2_folder, tmp_path / "whole"):
        assert tokenizer_faults(folder) == []
    unigram = train_from_iterator(["the cat sat"] * 9, kind="unigram", size=30)
    unigram.save(tmp_path / "unigram")
    assert tokenizer_faults(tmp_path / "unigram") == []


def test_two_tokens_with_one_id(lone):
    change(lone, lambda state: state["model"]["vocab"].update(cat=7))
    assert refused(lone) == (
        f"{lone / 'tokenizer.json'}: id 7 belongs to 'cat' and to 'sat'; an id has one token; "
        "fetch the file again."
    )


def test_one_token_with_two_ids(lone):
    text = (lone / "tokenizer.json").read_text()
    (lone / "tokenizer.json").write_text(text.replace('"cat": 6', '"sat": 6'))
    assert refused(lone) == (
        f"{lone / 'tokenizer.json'}: 'sat' stands twice in one object; a key has one value; "
        "restore the file."
    )


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (2**31, "2,147,483,648, and there are 25 tokens; at most 1,000,000 ids may be empty;"),
        (2**70, f"{2**70:,}, and there are 25 tokens; at most 1,000,000 ids may be empty;"),
        (-1, "-1; ids are whole numbers from 0;"),
        (1.0, "1.0; ids are whole numbers from 0;"),
        (None, "None; ids are whole numbers from 0;"),
        ([7], "[7]; ids are whole numbers from 0;"),
    ],
)
def test_ids_that_cannot_be(lone, pairs, number, said):
    begin = time.monotonic()
    change(lone, lambda state: state["model"]["vocab"].update({"😀": number}))
    assert refused(lone) == (
        f"{lone / 'tokenizer.json'}: the id of '😀' is {said} fetch the file again."
    )
    (pairs / "tokenizer.json").unlink()
    change(pairs, lambda state: state.update(Ġcat=number), "vocab.json")
    assert refused(pairs).startswith(f"{pairs / 'vocab.json'}: the id of 'Ġcat' is ")
    assert time.monotonic() - begin < 30  # built, the first takes minutes and 8 GB


def test_a_token_with_half_a_character(lone, pairs):
    (pairs / "tokenizer.json").unlink()
    for folder, name, table in ((lone, "tokenizer.json", "model"), (pairs, "vocab.json", "")):
        change(
            folder,
            lambda state, table=table: (state[table]["vocab"] if table else state).update(
                {"a\ud800": 99}
            ),
            name,
        )
        assert refused(folder) == (
            f"{folder / name}: the token 'a\\ud800' holds half of a character; tokens are whole "
            "characters; fetch the file again."
        )


def test_added_tokens_with_other_ids(lone):
    token = {"id": 2**31, "content": "<x>", "special": True, **ADDED}
    change(lone, lambda state: state["added_tokens"].append(token))
    assert refused(lone).startswith(
        f"{lone / 'tokenizer.json'}: the id of '<x>' is 2,147,483,648, and there are 26 tokens;"
    )
    change(lone, lambda state: state["added_tokens"][-1].update(id=30))
    assert refused(lone) == (
        f"{lone / 'tokenizer.json'}: the id of '<x>' is 30; among the added tokens it becomes 25; "
        "ids go on from the vocabulary; fetch the file again."
    )
    change(lone, lambda state: state["added_tokens"][-1].update(id=25))
    assert Tokenizer.load(lone).id_of("<x>") == 25
    (lone / "added_tokens.json").write_text('{"cat": 9}')
    assert refused(lone) == (
        f"{lone / 'added_tokens.json'}: the id of 'cat' is 9; it has the id 6 in the vocabulary; "
        "check that the file belongs to this vocabulary."
    )
    (lone / "added_tokens.json").write_text('{"<y>": "26"}')
    assert refused(lone) == (
        f"{lone / 'added_tokens.json'}: the id of '<y>' is '26'; ids are whole numbers from 0; "
        "fetch the file again."
    )


@pytest.mark.parametrize(
    ("decoder", "said"),
    [
        ([1], "added_tokens_decoder is [1]; it must have an entry for each id; correct it."),
        (
            {"a": {"content": "<x>"}},
            "added_tokens_decoder has 'a'; its keys are ids, whole numbers from 0; correct it.",
        ),
        (
            {"4294967296": {"content": "<x>"}},
            "the id of '<x>' is 4,294,967,296; it would follow the vocabulary as 25; check that "
            "the file belongs to this vocabulary.",
        ),
        (
            {"25": {"content": ""}},
            "the id of '' is 25; it cannot be added; check that the file belongs to this "
            "vocabulary.",
        ),
    ],
)
def test_a_decoder_of_added_tokens_that_is_none(lone, decoder, said):
    path = lone / "tokenizer_config.json"
    path.write_text(json.dumps({"added_tokens_decoder": decoder}))
    assert refused(lone) == f"{path}: {said}"


def test_a_word_list_beside_it(bert, tmp_path):
    folder = tmp_path / "tokenizer"
    bert.save(folder)
    (folder / "clozeworks.json").unlink()
    path = folder / "vocab.txt"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole + "\n", encoding="utf-8")  # an empty line says nothing
    assert Tokenizer.load(folder).fingerprint == bert.fingerprint
    path.write_text(whole.replace("cat\n", "cap\n"), encoding="utf-8")
    assert refused(folder) == (
        f"{path}: 'cap' has the id 6 in vocab.txt and no id in tokenizer.json; the two files "
        "must belong together; fetch both again."
    )
    path.write_text(whole.replace("cat\nsat\n", "sat\ncat\n"), encoding="utf-8")
    assert refused(folder) == (
        f"{path}: 'cat' has the id 7 in vocab.txt and the id 6 in tokenizer.json; the two "
        "files must belong together; fetch both again."
    )


def test_pairs_beside_it(pairs):
    path = pairs / "vocab.json"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace('"Ġcat"', '"Ġcas"'), encoding="utf-8")
    assert refused(pairs).startswith(f"{path}: 'Ġcas' has the id 265 in vocab.json and no id")
    path.write_text(whole, encoding="utf-8")
    path = pairs / "merges.txt"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace("Ġ cat\n", ""), encoding="utf-8")
    assert refused(pairs) == (
        f"{path}, line 6: merge 6 is missing, and 'Ġ cat' in tokenizer.json; the two files must "
        "belong together; fetch both again."
    )
    path.write_text(whole + "h e\n", encoding="utf-8")
    assert refused(pairs) == (
        f"{path}, line 8: merge 7 is 'h e', and missing in tokenizer.json; the two files must "
        "belong together; fetch both again."
    )


def test_gaps_are_stated_but_loaded(lone, bert_folder):
    change(lone, lambda state: state["model"]["vocab"].update({"😀": 29}))
    assert Tokenizer.load(lone).size == 30
    assert tokenizer_faults(lone) == [
        f"{lone}: 5 ids have no token, the first is 24; a vocabulary has no gaps unless it was "
        "published so; compare it with the original."
    ]
    # The published Chinese BERT has a token on two lines; the first of them is no gap.
    (bert_folder / "vocab.txt").write_text("[UNK]\ncat\nmat\ncat\n")
    assert tokenizer_faults(bert_folder) == []


def test_a_piece_that_stands_twice(tmp_path):
    train_from_iterator(["the cat sat"] * 9, kind="unigram", size=30).save(tmp_path)
    pieces = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"]
    change(tmp_path, lambda state: state["model"]["vocab"].append(["▁the", -9.0]))
    assert len(pieces) < 100 and "▁the" in {piece for piece, _ in pieces}
    said = [said for said in tokenizer_faults(tmp_path) if "stands twice" in said]
    assert said == [
        f"{tmp_path}: the piece '▁the' stands twice in the vocabulary; a piece has one id; fetch "
        "the files again."
    ]


def test_nothing_of_another_tokenizer_stays(bert, roberta, tmp_path):
    bert.save(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("old")
    roberta.save(tmp_path)
    assert not (tmp_path / "vocab.txt").exists()
    assert Tokenizer.load(tmp_path).fingerprint == roberta.fingerprint
    assert not Tokenizer.load(tmp_path).has_chat_template
    bert.save(tmp_path)
    assert not (tmp_path / "merges.txt").exists()
    assert tokenizer_faults(tmp_path) == []


def test_a_step_that_gives_up_on_a_text(lone):
    """A regular expression may be valid and still fail, which is a panic of the library."""
    split = {
        "type": "Split",
        "pattern": {"Regex": "(a+)+$"},
        "behavior": "Isolated",
        "invert": False,
    }
    change(lone, lambda state: state.update(pre_tokenizer=split))
    tokenizer = Tokenizer.load(lone)
    long = "a" * 40 + " b"
    rule = (
        "cannot be used (Onig: Regex search error: retry-limit-in-match over); it must be able to "
        "write every text; use another tokenizer, or leave the text out."
    )
    with pytest.raises(TokenizerError) as caught:
        tokenizer.encode(["cat", long], source_locations=["a, row 1", "a, row 2"])
    assert str(caught.value) == f"a, row 2: the tokenizer {rule}"
    with pytest.raises(TokenizerError) as caught:
        tokenizer.encode(["cat"], [long])
    assert str(caught.value) == f"text 1: the tokenizer {rule}"
    with pytest.raises(TokenizerError) as caught:
        PlainText(tokenizer).encode([long])
    assert str(caught.value) == f"the tokenizer {rule}"


def test_a_step_that_is_no_step(lone):
    split = {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}
    change(lone, lambda state: state.update(pre_tokenizer=split))
    said = refused(lone)
    assert said.startswith(f"{lone / 'tokenizer.json'} cannot be used (Oniguruma error: end pat")
    assert said.endswith("; the tokenizers library must be able to read it; fetch the file again.")


def test_a_text_that_no_token_can_write(lone):
    change(lone, lambda state: state["model"].update(unk_token="<none>"))
    tokenizer = Tokenizer.load(lone)
    with pytest.raises(TokenizerError, match=r"^text 2: the tokenizer cannot be used \(WordPiece"):
        tokenizer.encode(["cat", "zebra"])


def test_what_the_library_reads_is_read(lone):
    """The checks refuse nothing that is well formed."""
    assert Tokenizer.load(lone).vocabulary() == dict(
        sorted(
            Backend.from_file(str(lone / "tokenizer.json")).get_vocab().items(),
            key=lambda item: item[1],
        )
    )
