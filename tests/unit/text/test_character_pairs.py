"""GPT's tokenizer, a folder of LLaMA 2, and SentencePiece models that must be converted first."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, processors

import clozeworks as cw
from clozeworks.errors import SettingError, TokenizerError, UnsupportedError
from clozeworks.text.fast.plain import PlainText
from clozeworks.text.tokenizer.styles import GPT_STYLE
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator

MERGES = ["t h", "th e</w>", "c a", "ca t</w>", "s a", "sa t</w>"]
LETTERS = [*"acehst.,!", "é"]
PIECES = ["<unk>", *LETTERS, *(f"{sign}</w>" for sign in LETTERS)]
PIECES += [merge.replace(" ", "") for merge in MERGES]
TEXTS = ["The cat sat, the CAT!", "a cat's hat.", "Thé  hats\tsee", "北 cat", "", "sat"]


@pytest.fixture
def gpt_folder(tmp_path):
    folder = tmp_path / "gpt"
    folder.mkdir()
    vocabulary = {piece: number for number, piece in enumerate(PIECES)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    lines = "\n".join(["#version: 0.2", *MERGES]) + "\n"
    (folder / "merges.txt").write_text(lines, encoding="utf-8")
    return folder


def pieces_of(tokenizer, text):
    return [tokenizer.token_of(number) for number in tokenizer.encode([text])[0].ids]


@pytest.mark.parametrize("style", [None, GPT_STYLE])
def test_pieces_say_where_words_end(gpt_folder, style):
    tokenizer = Tokenizer.load(gpt_folder, style)
    assert pieces_of(tokenizer, "The CATS sat.") == [
        *("the</w>", "ca", "t", "s</w>", "sat</w>", ".</w>"),
    ]  # fmt: skip
    assert tokenizer.decode(tokenizer.encode(["The cat sat."])[0].ids) == "the cat sat ."
    assert pieces_of(tokenizer, "x") == ["<unk>"]
    assert tokenizer.unknown_id == 0 and tokenizer.last_id is None


def test_the_config_decides(gpt_folder):
    config = {"tokenizer_class": "GPT2Tokenizer"}
    (gpt_folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    assert '"ByteLevel"' in json.dumps(Tokenizer.load(gpt_folder).state["pre_tokenizer"])


def test_saved_and_read_again(gpt_folder, tmp_path):
    first = Tokenizer.load(gpt_folder)
    first.save(tmp_path / "again")
    assert Tokenizer.load(tmp_path / "again").fingerprint == first.fingerprint
    for name in ("tokenizer.json", "clozeworks.json"):
        (tmp_path / "again" / name).unlink()
    assert Tokenizer.load(tmp_path / "again").fingerprint == first.fingerprint
    assert json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())[
        "tokenizer_class"
    ] == "OpenAIGPTTokenizer"  # fmt: skip


def test_raw_text_for_a_corpus(gpt_folder):
    tokenizer = Tokenizer.load(gpt_folder)
    ids, lengths = PlainText(tokenizer).encode(TEXTS)
    found = [item.ids for item in tokenizer.encode(TEXTS, special=False)]
    assert ids.tolist() == [number for text in found for number in text]
    assert lengths.tolist() == list(map(len, found))


def test_training_gives_the_same_bytes_in_every_process(tmp_path):
    program = (
        "import sys; from clozeworks.text.training.train import train_from_iterator as train; "
        "from clozeworks.text.tokenizer.styles import GPT_STYLE; "
        "text = ['the cats sat on the mats and sang the songs of cats'] * 3; "
        "train(text, kind='bpe', size=40, style=GPT_STYLE).save(sys.argv[1])"
    )
    found = set()
    for run in range(3):
        subprocess.run([sys.executable, "-c", program, tmp_path / str(run)], check=True)
        found.add((tmp_path / str(run) / "tokenizer.json").read_bytes())
    assert len(found) == 1
    tokenizer = Tokenizer.load(tmp_path / "0")
    assert tokenizer.token_of(0) == "<unk>" and tokenizer.size == 40
    assert pieces_of(tokenizer, "the cats")[0] == "the</w>"


def test_a_size_that_is_too_small():
    with pytest.raises(SettingError, match="raise size"):
        train_from_iterator(["the cat"] * 3, kind="bpe", size=4, style=GPT_STYLE)


def llama_folder(folder):
    """A tokenizer as LLaMA 2's: pieces of SentencePiece, bytes for what they cannot write."""
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    merges = [("▁", "c"), ("a", "t"), ("▁c", "at"), ("▁", "s"), ("▁s", "at")]
    names = ["<unk>", "<s>", "</s>", *bytes_, "▁", *"acst", *map("".join, merges)]
    backend = Backend(
        models.BPE(
            {name: number for number, name in enumerate(names)},
            merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True,
        )
    )  # fmt: skip
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    steps = [
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]  # fmt: skip
    backend.decoder = decoders.Sequence(steps)
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    folder.mkdir()
    backend.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def test_llama_2(tmp_path):
    from clozeworks.families.llama import FAMILY

    tokenizer = Tokenizer.load(llama_folder(tmp_path / "llama"), FAMILY.style)
    assert pieces_of(tokenizer, "cat sat") == ["<s>", "▁cat", "▁sat"]
    assert pieces_of(tokenizer, "é") == ["<s>", "▁", "<0xC3>", "<0xA9>"]
    for text in ("cat sat", "é北京😀\n\x00", "  cat  sat "):
        assert tokenizer.decode(tokenizer.encode([text])[0].ids) == text
    special = (tokenizer.first_id, tokenizer.last_id, tokenizer.unknown_id, tokenizer.pad_id)
    assert special == (1, 2, 0, None)
    tokenizer.save(tmp_path / "again")
    assert Tokenizer.load(tmp_path / "again").fingerprint == tokenizer.fingerprint


CONVERT = (
    "spiece.model is a SentencePiece model; tokenizer.json must stand beside it; have transformers "
    "write it: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
)


def test_a_sentence_piece_model_must_be_converted(tmp_path):
    (tmp_path / "spiece.model").write_bytes(b"\x0a")
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(tmp_path)
    assert str(caught.value) == f"{tmp_path}/{CONVERT}"


def test_a_model_folder_with_a_sentence_piece_model_alone(tiny_models, tmp_path):
    folder = Path(shutil.copytree(tiny_models["bert"], tmp_path / "model"))
    for name in ("tokenizer.json", "vocab.txt", "clozeworks.json"):
        (folder / name).unlink()
    (folder / "spiece.model").write_bytes(b"\x0a")
    model = cw.load(folder)
    assert f"no tokenizer in the folder; {CONVERT.rstrip('.')}" in model.report.notes
    with pytest.raises(UnsupportedError) as caught:
        model.embed("cat")
    assert str(caught.value) == f"{folder}: {CONVERT}"


@pytest.mark.parity
def test_as_transformers_reads_gpt(gpt_folder, tmp_path):
    transformers = pytest.importorskip("transformers")
    trained = train_from_iterator(TEXTS * 3, kind="bpe", size=80, style=GPT_STYLE)
    for number, tokenizer in enumerate([Tokenizer.load(gpt_folder), trained]):
        tokenizer.save(tmp_path / str(number))
        peer = transformers.AutoTokenizer.from_pretrained(tmp_path / str(number))
        assert isinstance(peer, transformers.OpenAIGPTTokenizer)
        for text in TEXTS:
            ids = tokenizer.encode([text])[0].ids
            assert ids == peer(text)["input_ids"]
            assert tokenizer.decode(ids) == peer.decode(ids, skip_special_tokens=True)
            pair = peer(text, "the cat")["input_ids"]
            assert tokenizer.encode([text], ["the cat"])[0].ids == pair
    published = transformers.OpenAIGPTTokenizer.from_pretrained(gpt_folder)
    ours = Tokenizer.load(gpt_folder)
    assert [ours.encode([text])[0].ids for text in TEXTS] == published(TEXTS)["input_ids"]


@pytest.mark.parity
def test_as_transformers_reads_llama_2(tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = llama_folder(tmp_path / "llama")
    ours, peer = Tokenizer.load(folder), transformers.AutoTokenizer.from_pretrained(folder)
    # A space at the beginning is kept, as SentencePiece does; transformers 5.22 drops it.
    for text in ["cat sat", "é北京😀", "a\nb", "cat  sat"]:
        assert ours.encode([text])[0].ids == peer(text)["input_ids"], text
