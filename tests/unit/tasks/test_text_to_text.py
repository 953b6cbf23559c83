"""Text to text: what is asked, what it costs, what is refused, and chats."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import clozeworks as cw
from clozeworks.core.layout import Layout
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.errors import InputError, SettingError, TokenizerError, UnknownName
from clozeworks.jobs.finetune.data import note_in_folder
from clozeworks.jobs.finetune.examples import TaskExamples
from clozeworks.objectives.batch import Vocabularies
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.task import TaskData
from clozeworks.tasks.text_to_text.data import prepared
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem, Turn
from clozeworks.tasks.text_to_text.rows import RowSettings, TextLengths
from clozeworks.tasks.text_to_text.task import TextToText, Writing
from clozeworks.text.tokenizer.styles import GPT2_STYLE, T5_STYLE
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator

TEXT = "the fox ran from London to New York : user assistant system and the lazy dog slept ."
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
T5 = train_from_iterator([TEXT] * 5, kind="unigram", size=150, style=T5_STYLE)
GPT2 = train_from_iterator([TEXT] * 5, kind="bpe", size=320, style=GPT2_STYLE)
ONE = TextToText(between="\n", writing=Writing(max_new_tokens=4))
TWO = TextToText(writing=Writing(max_new_tokens=4))
ITEM = SourceItem("the fox ran", "to London")
CHAT = ChatItem(
    (
        Turn("system", "the lazy dog"),
        Turn("user", "the fox"),
        Turn("assistant", "ran"),
        Turn("user", "from"),
        Turn("assistant", "London"),
    )
)


def with_special(*names):
    """The same tokenizer with more special tokens."""
    from tokenizers import AddedToken

    backend = type(GPT2._backend).from_str(GPT2._backend.to_str())
    backend.add_special_tokens([AddedToken(name, special=True) for name in names])
    return Tokenizer(backend, special=GPT2.special)


@pytest.fixture(scope="module")
def t5():
    changes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    return cw.new("t5-small", T5, heads=["decoder", "vocabulary"], dropout_rate=0.0, **changes)


@pytest.fixture(scope="module")
def gpt2():
    changes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40}
    changes |= {f"{place}_pdrop": 0.0 for place in ("resid", "embd", "attn")}
    return cw.new("gpt2", GPT2, heads=["vocabulary"], **changes)


def batch(task, items, tokenizer, most=None):
    arranged = TaskExamples(task, items, tokenizer, max_length=most).take(0, np.arange(len(items)))
    return task.batch(arranged, 0, Vocabularies.of(tokenizer))


def row(task, item, tokenizer, most=None, answer=True):
    return task.row_of(item, RowSettings(tokenizer, task.lengths, most), answer=answer)


def test_two_towers_part_source_and_target():
    items = [ITEM, SourceItem("the dog", "slept .")]
    made = batch(TWO, items, T5)
    sources = T5.encode(["the fox ran", "the dog"])
    assert made.ids.tolist() == [token for text in sources for token in text.ids]
    assert made.lengths.tolist() == [len(text) for text in sources]
    part = made.targets["text_to_text"]
    targets = [
        [*text.ids, T5.last_id] for text in T5.encode(["to London", "slept ."], special=False)
    ]
    assert part["answers"].tolist() == [*targets[0], *targets[1]]
    assert part["read"].tolist() == [0, *targets[0][:-1], 0, *targets[1][:-1]]
    assert part["lengths"].tolist() == [len(each) for each in targets]


def test_one_tower_pays_for_the_answer_and_its_end_only(gpt2):
    items = [ITEM, SourceItem("the dog", "slept .")]
    made = batch(ONE, items, GPT2)
    prompts = GPT2.encode(["the fox ran\n", "the dog\n"])
    answers = [[*t.ids, GPT2.last_id] for t in GPT2.encode(["to London", "slept ."], special=False)]
    rows = [[*p.ids, *a] for p, a in zip(prompts, answers, strict=True)]
    assert made.ids.tolist() == [token for each in rows for token in each]
    network = gpt2.model
    due = torch.zeros(())
    count = 0
    for prompt, ids in zip(prompts, rows, strict=True):
        hidden = network(torch.tensor(ids), Layout([len(ids)]))
        logs = F.log_softmax(network.heads["vocabulary"](hidden), dim=-1)
        for place in range(len(prompt), len(ids)):
            due = due - logs[place - 1, ids[place]]  # the first from the last token of the prompt
            count += 1
    cost = ONE.loss(network, made.tensors()).terms["text_to_text"]
    assert cost.count == count
    torch.testing.assert_close(cost.total, due)
    mean = ONE.loss(network, made.tensors()).value()
    torch.testing.assert_close(mean, due / count)  # tokens count alike, not texts


def test_two_towers_cost_what_the_definition_says(t5):
    from clozeworks.core.context import AttentionSource as Encoded

    made, network = batch(TWO, [ITEM], T5), t5.model
    ids = torch.tensor(T5.encode(["the fox ran"])[0].ids)
    answer = [*T5.encode(["to London"], special=False)[0].ids, T5.last_id]
    layout = Layout([len(ids)])
    hidden = network.decode(
        torch.tensor([0, *answer[:-1]]),
        Layout([len(answer)]),
        Encoded(network(ids, layout), layout),
    )
    due = F.cross_entropy(
        network.heads["vocabulary"](hidden), torch.tensor(answer), reduction="sum"
    )
    torch.testing.assert_close(TWO.loss(network, made.tensors()).terms["text_to_text"].total, due)


def test_a_prefix_stands_before_sources_without_one():
    task = TextToText(prefix="to: ")
    assert task.text_of(ITEM) == "to: the fox ran"
    assert task.text_of(dataclasses.replace(ITEM, prefix="from: ")) == "from: the fox ran"
    assert task.text_of(dataclasses.replace(ITEM, prefix="")) == "the fox ran"
    assert (
        TextToText(format="translate_en_de")
        .text_of(ITEM)
        .startswith("translate English to German: the")
    )


@pytest.mark.parametrize(("task", "tokenizer"), [(TWO, T5), (ONE, GPT2)])
def test_long_texts_are_refused_or_cut_as_asked(task, tokenizer):
    item = SourceItem("the fox ran from London", "to New York", source_location="rows.csv, row 3")
    whole = row(task, item, tokenizer)
    assert not whole.cut
    for name, few in (("source", 4), ("target", 3)):
        limited = dataclasses.replace(task, lengths=TextLengths(**{name: few}))
        with pytest.raises(InputError) as caught:
            row(limited, item, tokenizer)
        assert str(caught.value).startswith(f"rows.csv, row 3: the {name} has ")
        assert str(caught.value).endswith(
            f"tokens; it may have {few}, as task.lengths says; shorten it, have it cut with "
            "task.lengths.cut=true, or drop such rows with --skip-bad-rows."
        )
        cut = row(
            dataclasses.replace(task, lengths=TextLengths(**{name: few}, cut=True)), item, tokenizer
        )
        assert cut.cut
        assert cut.is_target.count(name == "target") == few
        assert cut.ids[-1] == tokenizer.last_id


def test_one_tower_leaves_room_for_the_target():
    item = SourceItem("the fox ran from London", "to New York")
    whole = row(ONE, item, GPT2)
    with pytest.raises(InputError, match=r"which is left; shorten it, have it cut"):
        row(ONE, item, GPT2, most=len(whole.ids) - 1)
    shorter = dataclasses.replace(ONE, lengths=TextLengths(cut=True))
    cut = row(shorter, item, GPT2, most=len(whole.ids) - 1)
    assert len(cut.ids) == len(whole.ids) - 1
    assert cut.ids[: cut.is_target.index(True)][-1] == GPT2.encode(["\n"])[0].ids[0]


def test_one_tower_leaves_room_for_the_source():
    item = SourceItem("the fox ran from London", "to New York", source_location="rows.csv, row 3")
    count = row(ONE, item, GPT2).is_target.count(True)
    with pytest.raises(InputError) as caught:
        row(ONE, item, GPT2, most=count)
    assert str(caught.value) == (
        f"rows.csv, row 3: the target has {count} tokens; it may have {count - 1}, since the model "
        f"takes {count} with the source; shorten it, have it cut with task.lengths.cut=true, or "
        "drop such rows with --skip-bad-rows."
    )
    shorter = dataclasses.replace(ONE, lengths=TextLengths(cut=True))
    cut = row(shorter, item, GPT2, most=count)
    assert len(cut.ids) == count and cut.cut and cut.ids[-1] == GPT2.last_id
    assert cut.is_target.count(True) == count - 1
    long = SourceItem("the fox ran " * 20, "to London " * 20)
    cut = row(shorter, long, GPT2, most=20)
    assert (len(cut.ids), cut.is_target.count(True)) == (20, 15), "a quarter is the source's"
    few = SourceItem("the fox", "to London " * 20)
    cut, whole = row(shorter, few, GPT2, most=20), row(ONE, few, GPT2)
    assert cut.is_target.count(False) == whole.is_target.count(False) and len(cut.ids) == 20


def test_a_prompt_that_fills_the_model_is_refused_or_cut(gpt2):
    item = SourceItem("the fox " * 30, source_location="rows.csv, row 3")
    with pytest.raises(InputError, match=r"^rows\.csv, row 3: the source has "):
        gpt2.predict([item], ONE)
    (answer,) = gpt2.predict([item], dataclasses.replace(ONE, lengths=TextLengths(cut=True)))
    assert answer.cut
    (short,) = gpt2.predict([SourceItem("the fox")], ONE)
    assert not short.cut


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"lengths": {"source": 1}}, "lengths.source is 1; it must be at least 2."),
        ({"writing": {"max_new_tokens": 0}}, "writing.max_new_tokens is 0; it must be at least 1."),
        ({"writing": {"num_beams": 0}}, "writing.num_beams is 0; it must be at least 1."),
        (
            {"writing": {"length_penalty": 0.6}},
            "writing.length_penalty is 0.6; it has no effect without a search; set `num_beams`, or "
            "leave it out.",
        ),
        (
            {"format": "cola", "formats": {"a": "rte"}},
            "format is 'cola'; `formats` name one for each task; one excludes the other; leave one "
            "of them out.",
        ),
        (
            {"format": "cola", "prefix": "x"},
            "prefix is 'x'; `format` is 'cola', which has its own; leave one of them out.",
        ),
    ],
)
def test_settings_that_make_no_sense_are_said(settings, sentence):
    from clozeworks import config
    from clozeworks.tasks.task import Task

    with pytest.raises(SettingError) as caught:
        config.read(Task, {"kind": "text_to_text", **settings})
    assert str(caught.value).endswith(sentence)


def test_an_unknown_format_is_said_with_the_nearest():
    with pytest.raises(UnknownName, match=r"format is 'colla'; known: .*Did you mean 'cola'\?"):
        TextToText(format="colla")
    with pytest.raises(UnknownName, match=r"formats is 'rt'"):
        TextToText(formats={"x": "rt"})


def test_models_that_do_not_fit_are_said(t5, gpt2, tiny_models):
    with pytest.raises(SettingError, match=r"^task is 'text_to_text'; the model cannot write: its"):
        cw.load(tiny_models["bert"]).for_task(TWO)
    with pytest.raises(SettingError, match=r"^task\.between is '\\n'; the model reads the so"):
        t5.for_task(ONE)
    with pytest.raises(SettingError, match=r"^task\.between is None; the model reads source"):
        gpt2.for_task(TWO)
    with pytest.raises(
        SettingError, match=r"^head is 'fresh'; it has no effect on a model that generates"
    ):
        t5.for_task(TWO, head="fresh")


def test_a_source_may_be_longer_than_the_tokenizer_says_if_that_is_asked_for(gpt2):
    item = SourceItem("the fox ran from London")
    with pytest.raises(InputError, match=r"it may have 4, as the tokenizer says; shorten it"):
        row(TWO, item, T5, most=4)
    longer = dataclasses.replace(TWO, lengths=TextLengths(source=50))
    assert not row(longer, item, T5, most=4).cut
    with pytest.raises(SettingError, match=r"^task\.lengths\.source is 50; this model takes at mo"):
        gpt2.for_task(dataclasses.replace(ONE, lengths=TextLengths(source=50)))


def test_a_chat_that_leaves_no_room_is_refused(gpt2):
    turns = [Turn("user", "the fox")]
    lengths = [len(row(ONE, ChatItem((Turn("user", "a" * n),)), GPT2).ids) for n in range(60)]
    full = ChatItem(
        (dataclasses.replace(turns[0], text="a" * lengths.index(40)),), source_location="x, row 1"
    )
    with pytest.raises(InputError) as caught:
        gpt2.predict([full], ONE)
    assert str(caught.value) == (
        "x, row 1 has 40 tokens; the model takes 40, and what it writes counts too; shorten it."
    )


def test_what_is_written_is_measured_beside_a_target(t5):
    from clozeworks.tasks.text_to_text.task import Composed

    with pytest.raises(InputError, match=r"^the item has no target; what is written is compared"):
        TWO.measure([SourceItem("a")], [Composed("b", 1.0)])


def test_one_text_is_asked_as_the_format_takes_it(t5):
    assert TextToText().item_of("a") == SourceItem("a")
    assert TextToText(format="cola").item_of("a") == TextItem("a")
    with pytest.raises(InputError, match=r"^the text is one text, and the format 'rte' writes two"):
        TextToText(format="rte").item_of("a")


def test_models_that_cannot_write_say_so(tiny_models, t5):
    from clozeworks.errors import UnsupportedError

    with pytest.raises(UnsupportedError, match="cannot write texts: it has no head for a task"):
        cw.load(tiny_models["bert"]).text_to_text("a")
    assert t5.text_to_text(["the fox"])[0].text is not None  # without a task, as it is


def test_a_model_keeps_what_it_writes_with(t5, gpt2):
    for model, task in ((t5, TWO), (gpt2, ONE)):
        again = model.for_task(task)
        assert again.task == task
        for name, weight in model.model.named_parameters():
            assert torch.equal(weight, again.model.get_parameter(name))


def test_items_of_another_kind_need_a_format(t5):
    with pytest.raises(InputError, match=r"is a TextItem, and the task has no format to write it"):
        t5.predict([TextItem("the fox")], TWO)
    asked = t5.predict([TextItem("the fox")], dataclasses.replace(TWO, format="cola"))
    assert asked[0].label is None  # an untrained model writes no label


def test_tokenizers_without_an_end_or_a_beginning_are_refused():
    ends = dataclasses.replace(GPT2.special, last=None, first=None)
    endless = Tokenizer(GPT2._backend, special=ends)
    with pytest.raises(TokenizerError, match="the tokenizer's end token is None; a model that"):
        row(ONE, ITEM, endless)
    with pytest.raises(TokenizerError, match="the tokenizer's pad token is None; a decoder begins"):
        batch(TWO, [ITEM], GPT2)


def test_one_tower_learns_every_turn_of_the_assistant_and_its_end():
    tokenizer = with_special("<|im_start|>", "<|im_end|>").with_chat_template(CHATML)
    made = row(ONE, CHAT, tokenizer)
    text = tokenizer.decode(made.ids, skip_special=False)
    assert text == tokenizer.chat.render(
        [{"role": turn.role, "content": turn.text} for turn in CHAT.turns]
    )
    end = tokenizer.id_of("<|im_end|>")
    asked = [t for t, asks in zip(made.ids, made.is_target, strict=True) if asks]
    said = [tokenizer.encode([word], special=False)[0].ids for word in ("ran", "London")]
    assert asked == [*said[0], end, *said[1], end]
    prompt = row(ONE, CHAT, tokenizer, answer=False)
    assert tokenizer.decode(prompt.ids, skip_special=False).endswith("<|im_start|>assistant\n")
    assert made.ids[: len(prompt.ids)] == prompt.ids


def test_the_folder_says_what_ends_a_turn(tmp_path):
    """Another library would go on behind the assistant's turn otherwise."""
    tokenizer = with_special("<|im_start|>", "<|im_end|>").with_chat_template(CHATML)
    end = tokenizer.id_of("<|im_end|>")
    for items, ends in (([ITEM], tokenizer.last_id), ([CHAT], [tokenizer.last_id, end])):
        model = cw.new("gpt2", tokenizer, n_embd=16, n_layer=1, n_head=2, n_positions=40)
        data = SimpleNamespace(items=items, bad=BadRows())
        note_in_folder(prepared(ONE, TaskData((), data, data, model)), model)
        model.save(tmp_path / "model", overwrite=True)
        said = json.loads((tmp_path / "model" / "generation_config.json").read_text())
        assert said["eos_token_id"] == ends


def test_two_towers_learn_the_last_turn():
    made = row(TWO, CHAT, T5)
    asked = [t for t, asks in zip(made.ids, made.is_target, strict=True) if asks]
    assert asked == [*T5.encode(["London"], special=False)[0].ids, T5.last_id]


def test_the_plain_template_ends_turns_with_the_end(gpt2):
    made = row(ONE, CHAT, GPT2)
    asked = [t for t, asks in zip(made.ids, made.is_target, strict=True) if asks]
    assert asked.count(GPT2.last_id) == 2
    assert asked[-1] == GPT2.last_id
    assert len(gpt2.predict([CHAT], ONE)) == 1


def test_a_chat_that_is_too_long_is_refused():
    with pytest.raises(InputError, match=r"^the chat has \d+ tokens; the model takes 8; leave out"):
        row(ONE, CHAT, GPT2, most=8)


def test_beams_write_a_text_at_least_as_likely(t5):
    for beams in (1, 4):
        task = dataclasses.replace(TWO, writing=Writing(max_new_tokens=4, num_beams=beams))
        (answer,) = t5.predict([ITEM], task)
        assert 0 <= answer.score <= 1


def test_a_search_is_not_wider_than_the_vocabulary(t5):
    with pytest.raises(
        SettingError, match=r"task\.writing\.num_beams is 99,999; the vocabulary has"
    ):
        TextToText(writing=Writing(num_beams=99_999)).check(t5.model.blueprint)


def test_an_answer_must_have_a_beginning(t5):
    special = dataclasses.replace(T5.special, pad=None)
    without = Tokenizer(T5._backend, special=special)
    with pytest.raises(TokenizerError, match="the tokenizer's pad token is None; a decoder begins"):
        TWO.generation(t5.model, without, [ITEM], None)
