"""The evaluation harness lm-eval asks a running server and gets the scores of `model.score`.

`make clients` installs it. Its tasks here are local: a file of settings and one of rows.
"""

import json

import pytest

import clozeworks as cw

pytestmark = pytest.mark.parity
ROWS = [
    {"question": "the cat is", "choices": [" good", " bad", " no day"], "answer": 0},
    {"question": "translate : the dog", "choices": [" a fox", " 0 1 2"], "answer": 1},
    {"question": "summarize", "choices": [" yes", " unacceptable sentence 9"], "answer": 0},
    {"question": "is the fox good ", "choices": ["no .", "yes ."], "answer": 1},
    {"question": "cola sentence the hen is on", "choices": [" good", " bad"], "answer": 1},
]
TASKS = {
    "pets": """
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_target: answer
doc_to_choice: "{{choices}}"
target_delimiter: ""
metric_list: [{metric: acc}]
""",
    "rolling": """
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{question}}"
metric_list: [{metric: word_perplexity}]
""",
    "written": """
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{choices[0]}}"
generation_kwargs: {until: ["fox"], max_gen_toks: 12}
metric_list: [{metric: exact_match}]
""",
}
HUB = {"tokenizer_backend": "huggingface", "tokenizer": "FOLDER"}
BACKENDS = {
    "the model's tokenizer": HUB,
    "texts": {**HUB, "tokenized_requests": False},
    "several at a time": {**HUB, "batch_size": 4, "num_concurrent": 2},
    "the server's tokenizer": {"tokenizer_backend": "remote"},
    "whichever there is": {"tokenizer_backend": "auto"},
    "no tokenizer": {"tokenizer_backend": "none"},  # which can write alone
}
EVALUATE = """
import os

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": asked["home"]}
import lm_eval
from lm_eval.tasks import TaskManager

manager = TaskManager(include_path=asked["folder"], include_defaults=False)
for name, arguments in asked["backends"].items():
    found[name] = {}
    for task in asked["tasks"] if arguments["tokenizer_backend"] != "none" else ["written"]:
        results = lm_eval.simple_evaluate(
            model="local-completions",
            model_args={**asked["usual"], **arguments},
            tasks=[task], task_manager=manager, bootstrap_iters=0, log_samples=True,
        )
        samples = sorted(results["samples"][task], key=lambda each: each["doc_id"])
        found[name][task] = {
            "metrics": results["results"][task],
            "asked": [each["arguments"] for each in samples],
            "got": [each["resps"] for each in samples],
        }
"""


@pytest.fixture(scope="module")
def model(writers):
    return cw.load(writers["gpt2"])


@pytest.fixture(scope="module")
def rows(model):
    """The rows, and one of whose choices the first is what the model would write itself."""
    for question in ("the hen", "the dog", "the cat", "a fox", "summarize :", "day", "user"):
        written = model.generate(question, max_new_tokens=1)
        ids = [
            list(each.ids) for each in model.tokenizer.encode([question, question + written.text])
        ]
        if written.text and ids[0] == ids[1][:-1]:
            return [*ROWS, {"question": question, "choices": [written.text, " 7"], "answer": 0}]
    raise AssertionError("no question has an answer that reads as it was written")


@pytest.fixture(scope="module")
def evaluated(clients, model, rows, serving, writers, tmp_path_factory):
    """What the harness found, by the way it was told to ask and by task."""
    folder = tmp_path_factory.mktemp("harness")
    data = folder / "rows.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for name, task in TASKS.items():
        dataset = f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\n"
        (folder / f"{name}.yaml").write_text(f"task: {name}\n{dataset}test_split: test\n{task}")
    own = {"tokenizer": str(writers["gpt2"])}
    with serving({"gpt2": model}) as url:
        return clients(
            EVALUATE,
            usual={"model": "gpt2", "base_url": f"{url}/v1/completions", "max_length": 96},
            backends={
                name: each | (own if "tokenizer" in each else {}) for name, each in BACKENDS.items()
            },
            tasks=list(TASKS),
            folder=str(folder),
            home=str(folder / "home"),
        )


@pytest.mark.parametrize("backend", [each for each in BACKENDS if each != "no tokenizer"])
def test_choices_have_the_scores_of_the_model(evaluated, model, rows, backend):
    found = evaluated[backend]["pets"]
    right = 0
    for row, asked, got in zip(rows, found["asked"], found["got"], strict=True):
        assert asked == [[row["question"], choice] for choice in row["choices"]]
        own = [each.total for each in model.score(*map(list, zip(*asked, strict=True)))]
        assert [score for [[score, _]] in got] == pytest.approx(own, abs=1e-4)
        right += own.index(max(own)) == row["answer"]
    assert found["metrics"]["acc,none"] == pytest.approx(right / len(rows))
    greedy = [is_greedy for several in found["got"] for [[_, is_greedy]] in several]
    assert greedy[-2:] == [True, False]


@pytest.mark.parametrize("backend", [each for each in BACKENDS if each != "no tokenizer"])
def test_whole_texts_have_the_scores_of_the_model(evaluated, model, rows, backend):
    begin = model.tokenizer.chat.special["eos_token"]
    texts = [row["question"] for row in rows]
    own = model.score([begin + text for text in texts])
    assert [each.count for each in own] == [
        len(each.ids) for each in model.tokenizer.encode(texts, special=False)
    ]
    got = evaluated[backend]["rolling"]["got"]
    assert [score for [[score]] in got] == pytest.approx([each.total for each in own], abs=1e-4)


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_texts_are_written_up_to_what_ends_them(evaluated, model, rows, backend):
    got = evaluated[backend]["written"]["got"]
    texts = [row["question"] for row in rows]
    own = model.generate(texts, max_new_tokens=12, stop=["fox"])
    assert [text for [[text]] in got] == [each.text for each in own]
