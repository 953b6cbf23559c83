"""Chats are written as transformers' apply_chat_template writes them."""

import pytest
from transformers import AutoTokenizer

from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator

pytestmark = pytest.mark.parity

CHATS = [
    [{"role": "user", "content": 'hi <there> & "you" 你好'}],
    [
        {"role": "system", "content": " be kind "},
        {"role": "user", "content": "hi\n\nthere"},
        {"role": "assistant", "content": "yes\n"},
        {"role": "user", "content": "why?"},
    ],
]
TEMPLATES = {
    "chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "llama": "{{ bos_token }}{% for message in messages %}\n"
    "  {%- if message.role == 'system' %}\n    {{- '<<SYS>>' ~ message.content | trim }}\n"
    "  {%- elif message.role == 'user' %}\n    {{- '[INST] ' + message.content + ' [/INST]' }}\n"
    "  {%- else %}\n    {{- ' ' + message.content + ' ' + eos_token }}\n  {%- endif %}\n"
    "{%- endfor %}",
    "loops": "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}"
    "{{ loop.index0 }}{{ m | tojson }}\n{% if loop.last %}{% break %}{% endif %}{% endfor %}",
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}"
    "{% else %}{{ m.role }}> {{ m.content }}\n{% endif %}{% endfor %}",
    "tests": "{% if tools is defined and tools is not none %}tools{% endif %}"
    "{% set ns = namespace(count=0) %}{% for m in messages %}{% set ns.count = ns.count + 1 %}"
    "{{ ns.count }}:{{ m['content'].strip()[:3] }} {% endfor %}",
}


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("asks", [False, True])
def test_the_same_text(name, chat, asks, tmp_path):
    made = train_from_iterator(["hi yes why so"] * 3, kind="bpe", size=300)
    made.with_chat_template(TEMPLATES[name]).save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    expected = theirs.apply_chat_template(chat, tokenize=False, add_generation_prompt=asks)
    assert Tokenizer.load(tmp_path).chat.render(chat, asks=asks) == expected
    theirs.save_pretrained(tmp_path / "again")  # keeps the template in a file of its own
    assert Tokenizer.load(tmp_path / "again").chat.render(chat, asks=asks) == expected
