"""Texts behind prompts: as if each were alone, as they come, up to a stop string."""

import dataclasses
import json

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import processors

import clozeworks as cw
from clozeworks.errors import CheckpointError, InputError, SettingError, UnsupportedError
from clozeworks.inference import generate as write
from clozeworks.inference import prompts as write_batches
from clozeworks.inference.streaming import StreamDecoder, first_stop
from clozeworks.runtime import memory
from clozeworks.tasks.text_to_text.items import ChatItem, Turn
from clozeworks.tasks.text_to_text.rows import RowSettings
from clozeworks.tasks.text_to_text.task import TextToText
from clozeworks.text.tokenizer.styles import GPT2_STYLE
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator

PROMPTS = ["The cat", "Paris lies on the", "我爱", "The dog sat on the mat and"]
SETTINGS = [
    {},
    {"sample": True, "seed": 3, "num_return_sequences": 2},
    {"temperature": 0.7, "top_k": 9, "repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
    {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.5},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_neighbours_change_nothing(model, settings):
    together = model.generate(PROMPTS, max_new_tokens=12, **settings)
    turned = model.generate(PROMPTS[::-1], max_new_tokens=12, **settings)
    assert _texts(together) == _texts(turned[::-1])
    for prompt, found in zip(PROMPTS, together, strict=True):
        alone = model.generate(prompt, max_new_tokens=12, **settings)
        for left, right in zip(_listed(found), _listed(alone), strict=True):
            assert (left.text, left.finish_reason) == (right.text, right.finish_reason)
            assert left.score == pytest.approx(right.score, abs=1e-9)


def _texts(found):
    return [[text.text for text in _listed(own)] for own in found]


def _listed(found):
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("rows", [1, 3])
def test_batches_change_nothing(model, rows, monkeypatch):
    whole = model.generate(PROMPTS, max_new_tokens=8, sample=True, num_return_sequences=2)
    monkeypatch.setattr(write_batches, "ROWS", rows)
    assert _texts(
        model.generate(PROMPTS, max_new_tokens=8, sample=True, num_return_sequences=2)
    ) == _texts(whole)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_what_streams_is_what_is_written(model, settings):
    stop = model.generate(PROMPTS[0], max_new_tokens=12).text[3:5]
    settings = {**settings, "max_new_tokens": 12, "stop": [stop] if stop else []}
    seen: dict[tuple[int, int], str] = {}
    whole = {}
    for fresh in model.stream(PROMPTS, **settings):
        key = fresh.prompt, fresh.number
        assert key not in whole, "nothing comes behind a text's end"
        seen[key] = seen.get(key, "") + fresh.text
        if fresh.whole is not None:
            whole[key] = fresh.whole
    assert {key: text.text for key, text in whole.items()} == seen
    found = model.generate(PROMPTS, **settings)
    assert [whole[key] for key in sorted(whole)] == [one for many in found for one in _listed(many)]


def test_what_is_written_so_far_is_a_text_of_its_own(model):
    """At every token: who is interrupted there has the tokens, the logs and the score."""
    whole = model.generate("The cat", max_new_tokens=6, stop=["never met"])
    for count, fresh in enumerate(
        model.stream("The cat", max_new_tokens=6, stop=["never met"]), start=1
    ):
        found = fresh.so_far()
        assert found.tokens == whole.tokens[:count]
        assert found.score == pytest.approx(sum(token.log for token in found.tokens))
        assert found.finish_reason == (fresh.whole.finish_reason if fresh.whole else None)
    assert found == whole and count == len(whole.tokens)
    assert "so_far" not in repr(fresh)


def test_what_is_held_back_is_written_so_far(models):
    model = models["gpt2"]
    text = model.generate("The cat", max_new_tokens=6).text
    for fresh in model.stream("The cat", max_new_tokens=6, stop=[text + "."]):
        if fresh.whole is None:
            assert (fresh.text, fresh.so_far().text != "") == ("", True)
    assert fresh.text == fresh.so_far().text == text


def test_a_text_ends_before_a_stop_string(models):
    model = models["gpt2"]
    plain = model.generate("The cat", max_new_tokens=30)
    stop = plain.text[7:9]
    found = model.generate("The cat", max_new_tokens=30, stop=["never met", stop])
    assert found.finish_reason == "stop"
    assert found.text == plain.text[: plain.text.index(stop)]
    assert len(found.tokens) < len(plain.tokens)
    assert model.generate("The cat", max_new_tokens=30, stop=["never met"]) == plain


def test_a_stop_string_may_begin_with_the_first_space(models):
    from clozeworks.inference.streaming import Stops

    for name, style in (("unigram", None), ("bpe", GPT2_STYLE)):
        tokenizer = train_from_iterator(PROMPTS * 4, kind=name, size=400, style=style)
        before = tokenizer.encode(["The"], special=False)[0].ids
        ids = tokenizer.encode(["The cat"], special=False)[0].ids[len(before) :]
        assert tokenizer.continued(before, ids) == " cat"
        stops = Stops(tokenizer, [" cat"], [before, ()])
        assert stops(0, ids)
        first = tokenizer.special_ids and min(tokenizer.special_ids)
        assert stops(0, [*ids[:-1], first, first, ids[-1]])
        assert not stops(0, tokenizer.encode(["The dog"], special=False)[0].ids[len(before) :])


def test_stop_strings_are_held_back():
    class Letters:
        def unfolding(self, before):
            return chr

    text = StreamDecoder(Letters(), (), ["</end>", "dx"])
    shown = [text.add(ord(letter)) for letter in "ab</ed</end>xy"]
    assert "".join(shown) == "ab</ed"
    assert shown[:6] == ["a", "b", "", "", "", "</e"]
    assert first_stop("abc", ["c", "b"]) == 1 and first_stop("abc", ["x"]) is None


def test_characters_of_several_tokens_appear_whole(models):
    model = models["gpt2"]
    tokenizer = model.tokenizer
    before = tokenizer.encode(["我"])[0].ids
    for text in ("爱北京🙂 The 漢字", " ß\n\tü"):
        ids = tokenizer.encode([text])[0].ids
        step = tokenizer.unfolding(before)
        pieces = [step(token) for token in ids]
        assert "".join(pieces) == text and "\ufffd" not in "".join(pieces)
        assert tokenizer.continued(before, ids) == text
    assert len(ids) > 4  # some characters did take several


def test_words_that_must_not_and_must_come(model):
    plain = model.generate("The cat", max_new_tokens=15, sample=True)
    word = max(plain.text.split(), key=len)
    settings = {
        "max_new_tokens": 15,
        "sample": True,
        "bad_words": [word],
        "required_words": ["Seine"],
    }
    found = model.generate("The cat", **settings)
    assert "Seine" in found.text
    assert word not in found.text.split() or word == "Seine"


def test_alternatives_and_logs(model):
    found = model.generate("The cat", max_new_tokens=5, top_logprobs=3)
    assert found.score == pytest.approx(sum(token.log for token in found.tokens))
    for token in found.tokens:
        assert len(token.others) == 3 and token.others[0] == (token.text, pytest.approx(token.log))


def test_an_empty_prompt(models):
    found = models["gpt2"].generate(["", "The"], max_new_tokens=4)
    assert found[0].tokens and found[0].prompt == ""
    for empty in ("", " \n"):
        with pytest.raises(InputError, match="prompt 2 is empty; t5-small answers what it reads"):
            models["t5"].generate(["The", empty], max_new_tokens=4)
    writer = models["gpt2"].writer()
    bare = type("Bare", (), {"first_id": None, "encode": lambda self, texts, special: [_Empty()]})()
    writer.tokenizer = bare
    with pytest.raises(InputError, match="prompt 1 is empty, and gpt2 has no token that a text"):
        writer.encode([""])


class _Empty:
    ids = special = ()


def test_an_end_that_stands_in_a_prompt_is_text(models):
    """Of what ends a text, only what the tokenizer's template added is taken away again."""
    model = models["gpt2"]
    tokenizer = model.tokenizer
    (newline,) = tokenizer.encode(["\n"])[0].ids
    point = dataclasses.replace(
        model.checkpoint, generation={"eos_token_id": [tokenizer.last_id, newline]}
    )
    writer = cw.LanguageModel(point, "lines").writer()
    prompts = ["The cat\n", "Q: why?\n\n", "\n", "The cat<|endoftext|>", "The<|endoftext|>\n"]
    for prompt, ids in zip(prompts, writer.encode(prompts), strict=True):
        assert ids == tokenizer.encode([prompt], special=False)[0].ids
    # A template that closes every text says nothing about a prompt.
    backend = Backend.from_str(json.dumps(tokenizer.state))
    backend.post_processor = processors.TemplateProcessing(
        single="$A <|endoftext|> <|endoftext|>",
        special_tokens=[("<|endoftext|>", tokenizer.last_id)],
    )
    closed = Tokenizer(backend)
    point = dataclasses.replace(point, tokenizer=closed)
    writer = cw.LanguageModel(point, "closed").writer()
    for prompt, ids in zip(prompts, writer.encode(prompts), strict=True):
        assert ids == closed.encode([prompt], special=False)[0].ids


def test_a_chat_is_put_as_the_template_has_it(models):
    model = models["gpt2"]
    source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    source += "{% if add_generation_prompt %}<assistant>{% endif %}"
    template = model.tokenizer.with_chat_template(source)
    chatting = cw.LanguageModel(dataclasses.replace(model.checkpoint, tokenizer=template), "chat")
    said = chatting.generate(["Hi", "The cat"], chat=True, max_new_tokens=6)
    put = model.generate(["<user>Hi<assistant>", "<user>The cat<assistant>"], max_new_tokens=6)
    assert [text.text for text in said] == [text.text for text in put]
    assert [text.prompt for text in said] == ["Hi", "The cat"]
    assert chatting.writer(chat=True).ends == chatting.writer().ends  # the template marks no end
    source = source.replace("{% endfor %}", "<|endoftext|>{% endfor %}")
    marked = model.tokenizer.with_chat_template(source)
    point = dataclasses.replace(model.checkpoint, tokenizer=marked, generation={"eos_token_id": 5})
    ends = cw.LanguageModel(point, "chat").writer(chat=True).ends
    assert ends == (5, marked.id_of("<|endoftext|>"))
    streamed = [fresh.text for fresh in chatting.stream("Hi", chat=True, max_new_tokens=6)]
    assert "".join(streamed) == said[0].text


def test_what_an_encoder_reads_of_a_chat_has_an_end_as_in_training(models):
    model = models["t5"]
    task = model.task_for(TextToText)
    chat = ChatItem((Turn("user", "The cat"),))
    reading = RowSettings(model.tokenizer, task.lengths, None)
    assert task.row_of(chat, reading).ids[-1] == model.tokenizer.last_id
    assert model.writer(chat=True).encode(["The cat"]) == [task.row_of(chat, reading).ids]


def test_long_prompts(models):
    model = models["gpt2"]
    long = " cat" * 63
    found = model.generate([long, "The"], max_new_tokens=9)
    assert [len(text.tokens) for text in found] == [1, 9] and found[0].finish_reason == "length"
    with pytest.raises(InputError) as error:
        model.generate(["The", long + " cat"], max_new_tokens=9)
    assert str(error.value) == (
        "prompt 2 has 64 tokens; gpt2 has positions for 64, and at least one must be left to "
        "write; shorten it."
    )
    assert len(models["t5"].generate("The cat " * 300, max_new_tokens=9).tokens) <= 9


def test_settings_that_do_not_fit_the_model(models, monkeypatch):
    model = models["gpt2"]
    entries = model.tokenizer.size
    with pytest.raises(
        SettingError, match=f"num_beams is 9,999; the vocabulary has {entries} entries"
    ):
        model.generate("The", num_beams=9999)
    unknown = (
        "the tokenizer of t5-small has no tokens for it, so it is never generated; leave it out"
    )
    for name in ("bad_words", "required_words"):
        said = f"{name} is '☃'; {unknown}"
        with pytest.raises(SettingError, match=said):
            models["t5"].generate("The", **{name: ["cat", "☃"]})
    words = ["Paris lies on the Seine"]
    said = r"they take .* tokens, and there is room for 1 after prompt 2; raise `max_new_tokens`"
    with pytest.raises(SettingError, match=said):
        model.generate(["The", " cat" * 63], max_new_tokens=30, required_words=words)
    chosen = write.Generation.of(max_new_tokens=30, required_words=words)
    with pytest.raises(SettingError, match=said):
        model.writer().check(["The", " cat" * 63], chosen)
    with pytest.raises(SettingError, match=said.replace("prompt 2", "prompt 1,002")):
        model.writer().stream(["The", " cat" * 63], chosen, first=1001)
    with pytest.raises(InputError, match="prompt 1,002 has "):
        model.writer().stream(["The", " cat" * 99], write.Generation(), first=1001)
    with pytest.raises(InputError, match="prompts is the number 5; it must be a text, or a list"):
        model.generate(5)
    with pytest.raises(
        SettingError, match="settings is set; `max_new_tokens` is given, too; use only one"
    ):
        model.generate("The", settings=write.Generation(), max_new_tokens=3)
    monkeypatch.setattr(write_batches, "available", lambda device: 1000)
    with pytest.raises(SettingError, match=r"prompt 1 with 63 new tokens takes .* are available"):
        model.generate("The")
    assert memory.available() > 10**8


def test_a_stream_is_checked_before_it_is_read(models, monkeypatch):
    model = models["gpt2"]
    with pytest.raises(SettingError, match="num_beams is 9,999"):
        model.stream("The", num_beams=9999)
    with pytest.raises(InputError, match="prompt 1 has 64 tokens"):
        model.stream(" cat" * 64)
    monkeypatch.setattr(write_batches, "available", lambda device: 1000)
    with pytest.raises(SettingError, match="lower it, `num_return_sequences` or `num_beams`"):
        model.stream("The")


def test_who_cannot_write(tiny_models, models, shapes):
    with pytest.raises(UnsupportedError, match="cannot write texts: its tokens see later ones"):
        cw.load(tiny_models["bert"]).generate("The")
    encoder = cw.new("t5-small", models["t5"].tokenizer, heads=(), **shapes["t5"])
    with pytest.raises(UnsupportedError, match="cannot write texts: no vocabulary head; use a"):
        encoder.generate("The")


def test_damaged_weights_are_named(models, shapes):
    broken = cw.new("gpt2", models["gpt2"].tokenizer, **shapes["gpt2"])
    with torch.no_grad():
        broken.model.encoder.norm.weight[0] = float("nan")
    with pytest.raises(CheckpointError, match=r"weights are damaged: .*encoder.norm.weight"):
        broken.generate("The")


def test_rows_without_a_token_are_never_written(models, shapes):
    from clozeworks.checkpoints.folder import Checkpoint
    from clozeworks.families.family import Config

    model = models["gpt2"]
    found: Checkpoint = model.checkpoint
    size = model.tokenizer.size
    blueprint = found.family.blueprint(
        Config({**found.config, **shapes["gpt2"], "vocab_size": size + 7}),
        frozenset({"vocabulary"}),
    )
    network = blueprint.build()
    with torch.no_grad():
        for weight in network.parameters():
            weight.zero_()
        network.embeddings.tokens.weight[size:] = 9.0
        network.encoder.norm.bias.fill_(1.0)
    wider = cw.LanguageModel(dataclasses.replace(found, model=network), "wider")
    found = wider.generate("The", max_new_tokens=3)
    assert found.tokens[0].text == model.tokenizer.token_of(0)  # of all tokens alike, the first


def test_where_texts_end_is_read_and_kept(models, tmp_path):
    model = models["t5"]
    folder = model.save(tmp_path / "model")
    stated = json.loads((folder / "generation_config.json").read_text())
    assert stated == {"eos_token_id": 1, "pad_token_id": 0, "decoder_start_token_id": 0}
    stated |= {"eos_token_id": [1, 5], "decoder_start_token_id": 3, "temperature": 0.5}
    (folder / "generation_config.json").write_text(json.dumps(stated))
    (folder / "clozeworks.json").unlink()  # as if another library had written it
    loaded = cw.load(folder)
    assert loaded.writer().ends == (1, 5) and loaded.writer().start == 3
    again = loaded.save(tmp_path / "again")
    assert json.loads((again / "generation_config.json").read_text()) == stated
    for wrong in ("x", -1, 10**6, [1, None]):
        text = json.dumps({"eos_token_id": wrong})
        (folder / "generation_config.json").write_text(text)
        with pytest.raises(
            CheckpointError, match=r"generation_config.json: eos_token_id is .*; it"
        ):
            cw.load(folder).generate("The")
