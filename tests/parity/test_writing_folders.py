"""A model taught to write is the same in transformers: loaded, it writes the same texts."""

import pytest
import torch
import transformers

import clozeworks as cw
from clozeworks.tasks.text_to_text.task import TextToText, Writing
from clozeworks.text.tokenizer.styles import GPT2_STYLE, T5_STYLE
from clozeworks.text.training.train import train_from_iterator

pytestmark = pytest.mark.parity

TEXT = "the fox ran from London to New York and the lazy dog slept ."
TEXTS = ["the fox ran", "the lazy dog slept .", "London to New York"]


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("size", ["t5-small", "t5-v1_1-small", "gpt2"])
def test_the_same_texts_are_written(size, beams, tmp_path):
    two = size != "gpt2"
    tokenizer = train_from_iterator(
        [TEXT] * 5,
        kind="unigram" if two else "bpe",
        size=150 if two else 320,
        style=T5_STYLE if two else GPT2_STYLE,
    )
    shape = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    if not two:
        shape = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
    heads = ["decoder", "vocabulary"] if two else ["vocabulary"]
    model = cw.new(size, tokenizer, heads=heads, initializer_range=0.3, **shape)
    with torch.no_grad():  # fresh weights write one word again and again
        generator = torch.Generator().manual_seed(2)
        for parameter in model.model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.3)
    task = TextToText(
        between=None if two else "\n", writing=Writing(max_new_tokens=8, num_beams=beams)
    )
    model.for_task(task).save(tmp_path / "model")
    ours = cw.load(tmp_path / "model").text_to_text(TEXTS)
    assert len({answer.text for answer in ours}) > 1

    kind = transformers.AutoModelForSeq2SeqLM if two else transformers.AutoModelForCausalLM
    theirs = kind.from_pretrained(tmp_path / "model")
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    assert theirs.generation_config.eos_token_id == tokenizer.last_id
    if two:
        assert theirs.generation_config.decoder_start_token_id == tokenizer.pad_id
    for text, answer in zip(TEXTS, ours, strict=True):
        inputs = reader(text if two else f"{text}\n", return_tensors="pt")
        inputs.pop("token_type_ids", None)
        found = theirs.generate(**inputs, max_new_tokens=8, num_beams=beams, do_sample=False)
        written = found[0] if two else found[0, inputs["input_ids"].shape[1] :]
        assert reader.decode(written, skip_special_tokens=True) == answer.text
