"""Whole folders of the relatives of RoBERTa, BERT and LLaMA: vectors, ranks, chats and texts."""

import numpy as np
import pytest
import torch
import transformers

import clozeworks as cw
from clozeworks.families.family import families
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator

pytestmark = pytest.mark.parity

TEXT = "the fox ran from London to New York and the lazy dog slept 2024 times ."
TEXTS = ["the fox ran", "the lazy dog slept .", "London to New York", "le chien dort 12 heures"]
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 70,
}
GROUPED = {**SMALL, "num_key_value_heads": 1, "head_dim": 8}


def tokenizer_of(family):
    style = families()[family].style
    return train_from_iterator([TEXT, *TEXTS] * 5, kind=style.kind, size=420, style=style)


def new(size, family, **changes):
    """A tiny model of a size, its weights drawn widely."""
    model = cw.new(size, tokenizer_of(family), **changes)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(2)
        for parameter in model.model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model


@pytest.mark.parametrize("mode", ["first", "mean"])
@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("size", ["bge-m3", "camembert-base"])
def test_vectors_are_those_of_sentence_transformers(size, ours_first, mode, tmp_path):
    """bge-m3 takes the first token, multilingual E5 the mean; both have length 1."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer

    family = "camembert" if size.startswith("camembert") else "xlm-roberta"
    model = new(size, family, **SMALL)
    model.pooling = cw.Pooling(modes=(mode,), normalize=True)
    model.save(tmp_path / "ours")
    theirs = SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    if not ours_first:
        encoder = transformers.AutoModel.from_pretrained(tmp_path / "ours")
        encoder.save_pretrained(tmp_path / "plain")
        reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
        reader.save_pretrained(tmp_path / "plain")
        pooled = Pooling(16, pooling_mode={"first": "cls"}.get(mode, mode))
        steps = [Transformer(str(tmp_path / "plain")), pooled, Normalize()]
        theirs = SentenceTransformer(modules=steps, device="cpu")
        theirs.save(str(tmp_path / "theirs"))
        model = cw.load(tmp_path / "theirs")
        assert (model.pooling.modes, model.pooling.normalize) == ((mode,), True)
    found = model.embed(TEXTS)
    np.testing.assert_allclose(found, theirs.encode(TEXTS), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("size", ["xlm-roberta-base", "ernie-3.0-nano"])
def test_a_reranker_scores_pairs_as_a_cross_encoder(size, tmp_path):
    """One number for each pair, as bge-reranker gives."""
    from sentence_transformers import CrossEncoder

    family = "ernie" if size.startswith("ernie") else "xlm-roberta"
    new(size, family, **SMALL).save(tmp_path / "ours")
    encoder = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "ours", num_labels=1
    )
    encoder.save_pretrained(tmp_path / "reranker")
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    reader.save_pretrained(tmp_path / "reranker")
    pairs = [(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[3]), (TEXTS[1], TEXTS[0])]
    theirs = CrossEncoder(str(tmp_path / "reranker"), device="cpu")
    expected = theirs.predict(pairs, activation_fn=torch.nn.Identity())
    ours = cw.load(tmp_path / "reranker")
    found = [answer.label for answer in ours.compare(pairs)]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "size", "changes"),
    [
        ("mistral", "mistral-7b-v0.2", {}),
        ("mistral", "mistral-7b-v0.1", {"sliding_window": 3}),
        ("qwen2", "qwen2.5-0.5b", {}),
        ("smollm3", "smollm3-3b", {"no_rope_layers": [1, 0]}),
    ],
)
def test_the_same_texts_are_written(family, size, changes, tmp_path):
    model = new(size, family, **{**GROUPED, **changes})
    model.save(tmp_path / "ours")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    reader.save_pretrained(tmp_path / "theirs")
    for loaded in (cw.load(tmp_path / "ours"), cw.load(tmp_path / "theirs")):
        for text in TEXTS:
            inputs = reader(text, return_tensors="pt")
            inputs.pop("token_type_ids", None)
            found = theirs.generate(
                **inputs, max_new_tokens=12, min_new_tokens=12, do_sample=False, pad_token_id=0
            )
            written = found[0, inputs["input_ids"].shape[1] :].tolist()
            ours = loaded.generate(text, max_new_tokens=12, min_new_tokens=12)
            names = reader.convert_ids_to_tokens(written)
            assert [token.text for token in ours.tokens] == names


@pytest.mark.parametrize("family", ["qwen2", "smollm3"])
def test_chats_are_written_alike(family, tmp_path):
    tokenizer_of(family).with_chat_template(CHATML).save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    chat = [{"role": "user", "content": "the fox?"}, {"role": "assistant", "content": "ran"}]
    expected = theirs.apply_chat_template(chat, tokenize=True, add_generation_prompt=True)
    ours = Tokenizer.load(tmp_path)
    text = ours.chat.render(chat, asks=True)
    assert ours.encode([text], special=False)[0].ids == expected["input_ids"]
    assert ours.id_of("<|im_start|>") == expected["input_ids"][0]


@pytest.mark.parametrize(
    ("family", "stated"), [("mistral", "LlamaTokenizer"), ("qwen2", "Qwen2Tokenizer")]
)
def test_tokenizers_of_published_classes(family, stated, tmp_path):
    """What their class writes (`tokenizer.json`, its name) is read as they read it."""
    state = tokenizer_of(family).state["model"]
    merges = [tuple(merge) for merge in state["merges"]]
    theirs = getattr(transformers, stated)(vocab=state["vocab"], merges=merges)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = Tokenizer.load(tmp_path / "theirs", families()[family].style)
    ours.save(tmp_path / "ours")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    for text in [*TEXTS, "  two  spaces\tand\nlines", "u\u0308ber 北京 😀", "don't 123456"]:
        expected = theirs(text)["input_ids"]
        assert ours.encode([text])[0].ids == expected, text
        assert again(text)["input_ids"] == expected, text
