import hashlib
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.text.tokenizer.special import SpecialTokens
from clozeworks.text.tokenizer.styles import ByteLevelStyle, WordPieceStyle
from clozeworks.text.training.train import choose_alphabet, train_from_iterator
from clozeworks.text.training.unigram import Lattice, find_seeds, replacement

KINDS = ["wordpiece", "bpe", "unigram"]
SYLLABLES = ["ka", "to", "mi", "ren", "sol", "ti", "ba", "un", "ex", "or", "é", "zu"]


def made_up(lines: int, seed: int = 1) -> list[str]:
    """Words of syllables, the early ones more frequent."""
    draw = random.Random(seed)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(600)]
    rank = [1 / (place + 1) for place in range(len(words))]
    return [" ".join(draw.choices(words, rank, k=12)) + "." for _ in range(lines)]


def chinese(lines: int) -> list[str]:
    """Text over 2,500 characters, more than the library's usual alphabet of 1,000."""
    draw = random.Random(2)
    characters = [chr(0x4E00 + place) for place in range(2500)]
    rank = [1 / (place + 10) for place in range(len(characters))]
    return ["".join(draw.choices(characters, rank, k=40)) + "。" for _ in range(lines)]


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    return made_up(1500)


@pytest.mark.parametrize("kind", KINDS)
def test_exactly_the_size(corpus, kind):
    trained = train_from_iterator(corpus, kind=kind, size=400)
    assert trained.kind == kind
    assert sorted(trained.vocabulary().values()) == list(range(400))


@pytest.mark.parametrize("kind", KINDS)
def test_trained_text_comes_back(corpus, kind):
    trained = train_from_iterator(corpus, kind=kind, size=400)
    text = made_up(1)[0].replace(".", "")
    if kind == "wordpiece":
        text = text.replace("é", "e")
    found = trained.encode([text])[0]
    assert trained.unknown_id not in found.ids
    assert trained.decode(found.ids) == text


@pytest.mark.parametrize("kind", KINDS)
def test_a_bigger_vocabulary_writes_shorter(corpus, kind):
    texts = made_up(50)
    small, large = (train_from_iterator(corpus, kind=kind, size=size) for size in (300, 600))
    assert sum(map(len, large.encode(texts))) < sum(map(len, small.encode(texts)))


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_when_the_text_has_no_more(kind):
    trained = train_from_iterator(["a", "ab ab ^]-\\"], kind=kind, size=5000, min_frequency=1)
    assert trained.size < 300
    assert sorted(trained.vocabulary().values()) == list(range(trained.size))
    if kind == "bpe":
        assert trained.mask_id == trained.size - 1


def test_special_tokens_have_their_places(corpus):
    bert = train_from_iterator(corpus, kind="wordpiece", size=300)
    assert list(bert.vocabulary())[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    roberta = train_from_iterator(corpus, kind="bpe", size=300)
    assert list(roberta.vocabulary())[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert list(roberta.vocabulary())[-1] == "<mask>"
    assert roberta.encode(["a"], ["b"])[0].ids.count(2) == 3
    unigram = train_from_iterator(corpus, kind="unigram", size=300)
    assert list(unigram.vocabulary())[:5] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]


def test_special_tokens_by_style(corpus):
    special = SpecialTokens(unknown="<|end|>", first="<|end|>", last="<|end|>")
    trained = train_from_iterator(
        corpus, kind="bpe", size=300, style=ByteLevelStyle(special=special, frame=False)
    )
    assert trained.id_of("<|end|>") == 0 and trained.size == 300
    cased = train_from_iterator(
        ["Ab Ab Ab"], kind="wordpiece", size=20, style=WordPieceStyle(lowercase=False)
    )
    assert cased.single_id("Ab") is not None and cased.single_id("ab") is None


PROGRAM = """
import sys
from pathlib import Path
from clozeworks.text.training.train import train_from_iterator
texts = [Path(name).read_text(encoding="utf-8") for name in sys.argv[3:]]
for kind in ("wordpiece", "bpe", "unigram"):
    out = Path(sys.argv[1]) / kind
    out.mkdir(parents=True)
    train_from_iterator(texts, kind=kind, size=int(sys.argv[2])).save(out)
"""


def digests(out: Path, size: int, files: list[Path], runs: int) -> list[dict[str, str]]:
    found = []
    for run in range(runs):
        folder = out / str(run)
        environment = dict(
            os.environ,
            PYTHONHASHSEED=str(run),
            RAYON_NUM_THREADS=str(1 + run % 2),
            PYTHONPATH=str(Path(__file__).resolve().parents[3] / "src"),
        )
        arguments = [sys.executable, "-c", PROGRAM, str(folder), str(size), *map(str, files)]
        subprocess.run(arguments, env=environment, check=True)
        found.append(
            {
                str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted(folder.rglob("*.*"))
            }
        )
    return found


def test_the_same_bytes_in_every_process(tmp_path):
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    files[0].write_text("\n".join(made_up(400)), encoding="utf-8")
    files[1].write_text("\n".join(chinese(200)), encoding="utf-8")
    found = digests(tmp_path / "out", 3000, files, 5)
    assert len(found[0]) >= 9
    assert all(other == found[0] for other in found[1:])
    turned = digests(tmp_path / "turned", 3000, files[::-1], 1)
    assert turned[0] == found[0]


def test_the_library_alone_is_not_the_same(tmp_path):
    """Negative control: without the numbered alphabet the test above would fail."""
    path = tmp_path / "text.txt"
    path.write_text("\n".join(made_up(400)), encoding="utf-8")
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    found = set()
    for _ in range(6):
        learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        learner.train([str(path)], trainers.WordPieceTrainer(vocab_size=400, show_progress=False))
        found.add(learner.to_str())
    assert len(found) > 1


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_chinese_is_known(kind):
    texts = chinese(1500)
    trained = train_from_iterator(texts, kind=kind, size=6000)
    found = trained.encode(texts, special=False, offsets=True)
    unknown = sum(
        end - begin
        for item in found
        for token_id, (begin, end) in zip(item.ids, item.offsets, strict=True)
        if token_id == trained.unknown_id
    )
    assert unknown < 0.01 * sum(map(len, texts))
    if kind == "wordpiece":
        assert found[0].words == list(range(41))
        # Characters that are words of their own need no continuing form.
        assert not any(token.startswith("##") for token in trained.vocabulary())


@pytest.mark.parametrize("kind", KINDS)
def test_progress_is_told(corpus, kind, capfd):
    calls = []
    train_from_iterator(corpus, kind=kind, size=300, progress=lambda *call: calls.append(call))
    assert calls == [("learn", 0, 1), ("learn", 1, 1)]
    assert capfd.readouterr() == ("", "")


def test_alphabet_keeps_what_the_text_needs():
    counted = Counter({"a": 900, "b": 98, "c": 1, "d": 1})
    ones = dict.fromkeys(counted, 1)
    assert choose_alphabet(counted, ones, size=8, taken=2, min_frequency=1) == list("abcd")
    assert choose_alphabet(counted, ones, size=8, taken=2, min_frequency=2) == ["a", "b"]
    # Equally frequent characters are chosen by code point.
    assert choose_alphabet(counted, ones, size=7, taken=2, min_frequency=1) == list("abc")


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_size_too_small(kind):
    texts = ["abc abd abe bac cab dab eab"] * 5
    with pytest.raises(SettingError) as caught:
        train_from_iterator(texts, kind=kind, size=7)
    least = {"wordpiece": 15, "unigram": 11}[kind]
    assert str(caught.value) == (
        "size is 7; the special tokens and the characters that make up 99.5% of the text need "
        f"{least}; raise size to at least {least}."
    )
    assert train_from_iterator(texts, kind=kind, size=least).size == least


def test_size_too_small_for_bytes():
    with pytest.raises(SettingError) as caught:
        train_from_iterator(["a b"], kind="bpe", size=100)
    assert str(caught.value) == (
        "size is 100; the special tokens and the 256 bytes need 261; raise size to at least 261."
    )
    assert train_from_iterator(["a b"], kind="bpe", size=261).size == 261


def test_unknown_kind():
    with pytest.raises(UnknownName) as caught:
        train_from_iterator(["a"], kind="wordpeice", size=100)
    assert str(caught.value) == (
        "kind is 'wordpeice'; known: bpe, unigram, wordpiece. Did you mean 'wordpiece'?"
    )


def test_style_of_another_kind():
    with pytest.raises(SettingError) as caught:
        train_from_iterator(["a"], kind="bpe", size=300, style=WordPieceStyle())
    assert str(caught.value) == (
        "style is WordPieceStyle; `kind` is 'bpe', whose style is ByteLevelStyle; give that one "
        "or none."
    )


def test_min_frequency():
    with pytest.raises(SettingError) as caught:
        train_from_iterator(["a"], kind="bpe", size=300, min_frequency=0)
    assert str(caught.value) == "min_frequency is 0; it must be at least 1; raise it."


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], ["", " \n\t"]])
def test_no_text(kind, texts):
    with pytest.raises(InputError) as caught:
        train_from_iterator(texts, kind=kind, size=300)
    assert str(caught.value) == (
        "the training text is empty; a tokenizer learns from words; give files with text."
    )


def test_bad_texts():
    with pytest.raises(InputError, match=r"^text 2 is 3 of type int; texts must be str; convert"):
        train_from_iterator(["a", 3], kind="bpe", size=300)
    with pytest.raises(
        InputError, match=r"^text 1 has a lone surrogate \(U\+D83D\) at character 2"
    ):
        train_from_iterator(["a\ud83d"], kind="wordpiece", size=300)
    with pytest.raises(InputError) as caught:
        train_from_iterator("one text", kind="bpe", size=300)
    assert str(caught.value) == (
        "texts is one str; it must be an iterable of str; put it in a list."
    )


def test_expected_counts_of_a_lattice_by_hand():
    import numpy as np

    counts, sizes = np.array([3]), np.array([2])
    seeds = find_seeds(["ab"], counts, ["a", "b"], 10, 1)
    assert seeds.texts == ["a", "b", "ab"]
    scores = np.log([0.5, 0.2, 0.3])
    whole, parts = 0.3, 0.5 * 0.2
    used = Lattice(seeds, sizes, counts).expected(scores)
    share = 3 * parts / (whole + parts)
    assert np.allclose(used, [share, share, 3 - share])
    assert np.allclose(replacement(seeds, scores)[2], np.log(parts))


def test_seeds_are_the_frequent_substrings():
    import numpy as np

    draw = random.Random(3)
    words = sorted({"".join(draw.choices("abc", k=draw.randint(1, 9))) for _ in range(60)})
    counts = np.array([draw.randint(1, 5) for _ in words])
    slow: Counter[str] = Counter()
    for word, count in zip(words, counts, strict=True):
        for begin in range(len(word)):
            for end in range(begin + 2, len(word) + 1):
                slow[word[begin:end]] += int(count)
    found = find_seeds(words, counts, ["a", "b", "c"], 10_000, 4)
    assert set(found.texts[3:]) == {text for text, count in slow.items() if count >= 4}


def test_a_tokenizer_says_what_it_is():
    tokenizer = train_from_iterator(["some words and some more"] * 3, kind="wordpiece", size=60)
    assert repr(tokenizer) == (
        f"Tokenizer(wordpiece, {tokenizer.size} entries; special: [PAD] [UNK] [CLS] [SEP] [MASK])"
    )
