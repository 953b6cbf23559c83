"""Chats as texts: templates in a sandbox, and which stretches the assistant says."""

import pytest

from clozeworks.errors import InputError, TokenizerError
from clozeworks.text.tokenizer.chat import PLAIN_TEMPLATE, ChatSegment, ChatTemplate
from clozeworks.text.training.train import train_from_iterator

CHAT = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "yes"},
    {"role": "user", "content": "why?"},
    {"role": "assistant", "content": "so"},
]
PLAIN = ChatTemplate(PLAIN_TEMPLATE, {"eos_token": "</s>"})


def test_the_plain_way():
    assert PLAIN.render(CHAT[:2]) == "user:\nhi\nassistant:\nyes</s>\n"
    assert PLAIN.render(CHAT[:1], asks=True) == "user:\nhi\nassistant:\n"


def test_pieces_join_to_the_whole_and_say_who_speaks():
    pieces = PLAIN.pieces(CHAT)
    assert "".join(piece.text for piece in pieces) == PLAIN.render(CHAT)
    assert [piece.by_assistant for piece in pieces] == [False, True, False, True]
    assert pieces[1] == ChatSegment("yes</s>\n", True)


def test_a_template_that_rewrites_earlier_turns_is_refused():
    forgetful = ChatTemplate("{{ messages[-1].content }}", {})
    with pytest.raises(
        InputError, match=r"^rows, line 2: the chat template writes turn 2 in anoth"
    ):
        forgetful.pieces(CHAT, "rows, line 2")


@pytest.mark.parametrize(
    ("source", "error", "sentence"),
    [
        ("{% for a in range(10**9) %}{% endfor %}", InputError, r"this chat \(Range too big"),
        ("{% for %}", TokenizerError, "chat_template, line 1: .*; it must be a Jinja template"),
        (
            "{{ raise_exception('no system') }}",
            InputError,
            r"does not take this chat \(no system\)",
        ),
        ("{{ messages[9].content.x }}", InputError, "does not take this chat"),
        ("{{ ''.__class__.__mro__ }}", InputError, "does not take this chat"),
        ("{{ messages.append(1) }}", InputError, "does not take this chat"),
        ("{{ messages + 1 }}", InputError, "does not take this chat"),
        ("{{ 'x' * 10**18 }}", InputError, r"more than 512.0 MB of memory\); change the chat"),
        ("{{ raise_exception('') }}", InputError, r"this chat \(TemplateError\)"),
        ("{{ 'abc'.index('z') }}", InputError, r"this chat \(substring not found\)"),
        (
            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
            InputError,
            r"this chat \(maximum recursion depth exceeded",
        ),
    ],
)
def test_what_a_template_may_not_do_is_said(source, error, sentence):
    with pytest.raises(error, match=sentence):
        ChatTemplate(source, {}).render(CHAT)


def test_a_tokenizer_carries_its_template(tmp_path):
    tokenizer = train_from_iterator(["hi yes why so"] * 3, kind="bpe", size=300)
    assert not tokenizer.has_chat_template
    assert tokenizer.chat.source == PLAIN_TEMPLATE
    given = tokenizer.with_chat_template("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}")
    given.save(tmp_path / "one")
    again = type(tokenizer).load(tmp_path / "one")
    assert again.has_chat_template
    assert again.chat.render(CHAT) == "<s>hi</s>"
    assert again.fingerprint == tokenizer.fingerprint
    (tmp_path / "one" / "chat_template.jinja").write_text("newer {{ messages[0].content }}")
    assert type(tokenizer).load(tmp_path / "one").chat.render(CHAT) == "newer hi"


def test_of_several_templates_the_default_counts():
    from clozeworks.text.tokenizer.chat import template_of

    several = [{"name": "tools", "template": "a"}, {"name": "default", "template": "b"}]
    assert template_of({"chat_template": several}) == "b"
    assert template_of({"chat_template": [{"name": "tools", "template": "a"}]}) is None
    assert template_of({}) is None
