"""How a model's card says the model is used, by task."""

from typing import Any

from clozeworks.reports.summary import CardUsage
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import FAMILY_HEAD, Classify
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.text_to_text.task import TextToText

TITLES = {
    "classify": "Text classification",
    "compare": "Comparison of two texts",
    "tag": "Tagging of words",
    "answer": "Question answering",
    "text_to_text": "Text to text",
}
PIPELINES = {
    "classify": "text-classification",
    "compare": "text-classification",
    "tag": "token-classification",
    "answer": "question-answering",
    "text_to_text": "text-generation",
}
_CALLS = {
    "classify": 'outputs = model.classify(["a text"])',
    "compare": 'outputs = model.compare([("one text", "another")])',
    "tag": 'outputs = model.tag(["a text"])',
    "answer": 'output = model.answer("a question?", "a context that holds the answer")',
    "text_to_text": 'outputs = model.text_to_text(["a text"])',
}
_QUESTIONS = """\
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForQuestionAnswering.from_pretrained("FOLDER")
inputs = tokenizer("a question?", "a context that holds the answer", return_tensors="pt")
with torch.no_grad():
    outputs = model(**inputs)
start, end = outputs.start_logits.argmax(), outputs.end_logits.argmax()
answer = tokenizer.decode(inputs["input_ids"][0, start : end + 1])"""


def card_usage(task: Any, kind: str, *, chats: bool) -> CardUsage:
    """How a model's card says the model is used.

    Args:
        task: The task, as it was trained.
        kind: Its name.
        chats: Whether the model learned from chats alone.
    """
    call, pipeline = _CALLS[kind], PIPELINES[kind]
    if chats and isinstance(task, TextToText):
        writing = task.writing
        search = f", num_beams={writing.num_beams}, length_penalty={writing.length_penalty}"
        call = (
            f'output = model.generate("a text", chat=True, max_new_tokens={writing.max_new_tokens}'
            f"{search if writing.num_beams > 1 else ''})"
        )
    if isinstance(task, Tag) and task.crf:
        sentence = (
            "The model also learned which tag follows which. transformers does not know these "
            "weights: it chooses tags word by word, and its predictions differ."
        )
        return CardUsage(pipeline, call, None, [sentence])
    if isinstance(task, Classify) and task.head != FAMILY_HEAD:
        sentence = (
            f"The pooling is {task.pooling!r}, which differs from the family's own: transformers "
            "loads only the encoder."
        )
        return CardUsage(pipeline, call, None, [sentence])
    snippet = _transformers(kind, task, chats=chats)
    return CardUsage(pipeline, call, snippet, _differences(task))


def _transformers(kind: str, task: Any, *, chats: bool) -> str:
    if kind == "answer":  # transformers has no pipeline for it any more
        return _QUESTIONS
    if isinstance(task, TextToText):
        return _generation(task, chats=chats)
    option, inputs = "", '"a text"'
    if isinstance(task, Tag) and task.rules.begins:
        option = ', aggregation_strategy="first"'
    elif isinstance(task, Classify):
        options = {"number": ', function_to_apply="none"', "several": ", top_k=None"}
        option = options.get(task.problem, "")
    if kind == "compare":
        inputs = '{"text": "one text", "text_pair": "another"}'
    return (
        "from transformers import pipeline\n\n"
        f'pipe = pipeline("{PIPELINES[kind]}", "FOLDER"{option})\noutputs = pipe({inputs})'
    )


def _generation(task: TextToText, *, chats: bool) -> str:
    kind = "Seq2SeqLM" if task.between is None else "CausalLM"
    read = repr(f"{task.prefix}a text{task.between or ''}")
    prompt = ""
    if chats:
        prompt = (
            'messages = [{"role": "user", "content": "a text"}]\n'
            "prompt = tokenizer.apply_chat_template("
            "messages, tokenize=False, add_generation_prompt=True)\n"
        )
        # A decoder's template writes its own special tokens; an encoder is shown its end.
        read = "prompt" if task.between is None else "prompt, add_special_tokens=False"
    first = 'inputs["input_ids"].shape[1]' if task.between is not None else "0"
    beams = ""
    if task.writing.num_beams > 1:
        length = task.writing.length_penalty
        beams = f", num_beams={task.writing.num_beams}, length_penalty={length}"
    return (
        f"from transformers import AutoModelFor{kind}, AutoTokenizer\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("FOLDER")\n'
        f'model = AutoModelFor{kind}.from_pretrained("FOLDER")\n'
        f'{prompt}inputs = tokenizer({read}, return_tensors="pt")\n'
        f"outputs = model.generate(**inputs, max_new_tokens={task.writing.max_new_tokens}{beams})\n"
        f"text = tokenizer.decode(outputs[0, {first}:], skip_special_tokens=True)"
    )


def _differences(task: Any) -> list[str]:
    if isinstance(task, Tag):
        return [
            "Clozeworks reads long texts through overlapping windows and never predicts tags that "
            "cannot follow each other; a pipeline may differ there."
        ]
    if isinstance(task, Answer):
        return [
            "Clozeworks also reads long contexts through windows, knows when there is no answer, "
            "and never lets an answer end before it begins."
        ]
    return []
