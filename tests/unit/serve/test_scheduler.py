"""One thread computes for all requests; each gets what it would get alone."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clozeworks as cw
from clozeworks.errors import ClozeworksError, InputError
from clozeworks.inference.loop import BatchOptions, Cancelled, Computation, compute_in_order
from clozeworks.serve.decoding import Decoding, SharedRows
from clozeworks.serve.scheduler import Scheduler
from clozeworks.serve.work import DeadlinePassed, Overloaded, ServerStopped, Work
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.tag import Tag

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "lay", "in", "its", "garden"]
TEXTS = [" ".join(WORDS[n % 5 : n % 5 + 2 + n % 7]) for n in range(24)]


@pytest.fixture
def scheduler():
    made = Scheduler(batch_tokens=64)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def models(tiny_models, writers):
    bert = cw.load(tiny_models["bert"])
    return {
        "bert": bert,
        "classify": cw.load(tiny_models["bert"]).for_task(Classify(labels=("bad", "good"))),
        "tag": cw.load(tiny_models["bert"]).for_task(Tag(labels=("O", "B-X", "I-X"))),
        "gpt2": cw.load(writers["gpt2"]),
        "t5": cw.load(writers["t5"]),
    }


def asked(scheduler, calls, threads=12):
    """The answers to calls that come at once, each as a request of its own."""

    def answer(call):
        with scheduler.serving(Work()):
            return call()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(answer, calls))


def test_vectors_and_labels_are_those_of_a_text_alone(scheduler, models):
    calls = []
    for n, text in enumerate(TEXTS):
        several = TEXTS[n : n + 1 + n % 4]
        calls += [
            lambda text=text: models["bert"].embed(text),
            lambda several=several: models["bert"].embed(several),
            lambda text=text: models["bert"].embed(text, pooling="max", normalize=True),
            lambda text=text: models["classify"].classify(text).scores,
            lambda text=text: list(models["tag"].tag(text).tags),
            lambda text=text: models["bert"].fill(f"{text} [MASK]", top=2).gaps[0][0].score,
            lambda text=text: models["gpt2"].score(text).logprobs,
        ]
    alone = [call() for call in calls]
    for found, expected in zip(asked(scheduler, calls), alone, strict=True):
        if isinstance(expected, dict):
            assert found == pytest.approx(expected, abs=1e-6)
        elif isinstance(expected, list) and isinstance(expected[0], str):
            assert found == expected
        else:
            np.testing.assert_allclose(found, expected, atol=1e-5)
    # Texts of several requests stood in one batch, or there was nothing to share.
    assert scheduler.batches < len(calls)


SETTINGS = [
    {"max_new_tokens": 12},
    {"max_new_tokens": 20, "sample": True, "seed": 3, "temperature": 1.4},
    {"max_new_tokens": 5, "num_beams": 3, "num_return_sequences": 2},
    {"max_new_tokens": 17, "sample": True, "num_return_sequences": 3, "top_k": 9},
    {"max_new_tokens": 9, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3},
    {"max_new_tokens": 30, "stop": ["the"]},
]


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_texts_that_grow_together_are_those_of_a_prompt_alone(scheduler, models, name):
    model = models[name]
    calls = [
        lambda settings=settings, prompt=prompt: model.generate(prompt, **settings)
        for settings in SETTINGS
        for prompt in ("the cat", "a dog is good and the fox is bad", ["hen", "yes no yes the a"])
    ]

    def texts(found):
        if isinstance(found, list):
            return [texts(each) for each in found]
        return found.text, found.finish_reason, [token.text for token in found.tokens]

    alone = [texts(call()) for call in calls]
    assert [texts(each) for each in asked(scheduler, calls, 18)] == alone
    # Several texts were written in one step.
    steps = sum(max(len(t[2]) for t in _flat(each)) for each in alone)
    assert 0 < scheduler.steps < steps
    assert scheduler.growing == 0 and scheduler.tokens == 0


def _flat(found):
    return [found] if isinstance(found, tuple) else [t for each in found for t in _flat(each)]


def test_chunks_of_a_stream_are_the_whole_text(scheduler, models):
    def streamed():
        return "".join(chunk.text for chunk in models["gpt2"].stream("the cat", max_new_tokens=15))

    alone = streamed()
    assert asked(scheduler, [streamed] * 6) == [alone] * 6


REQUESTS = {
    "embed": lambda models: models["bert"].embed(TEXTS[2]).tolist(),
    "several": lambda models: models["bert"].embed(TEXTS[:9]).tolist(),
    "labels": lambda models: list(models["classify"].classify(TEXTS[5]).scores.values()),
    "score": lambda models: list(models["gpt2"].score(TEXTS[7]).logprobs),
    "text": lambda models: models["gpt2"].generate("the cat", max_new_tokens=6).text,
    "drawn": lambda models: [
        each.text
        for each in models["gpt2"].generate(
            "a dog is", max_new_tokens=9, sample=True, seed=5, num_return_sequences=2
        )
    ],
    "beams": lambda models: models["t5"].generate("the cat", max_new_tokens=5, num_beams=3).text,
    "stream": lambda models: "".join(
        chunk.text for chunk in models["gpt2"].stream("hen yes", max_new_tokens=7)
    ),
}


@pytest.fixture(scope="module")
def answers_alone(models):
    return {name: call(models) for name, call in REQUESTS.items()}


@given(st.lists(st.tuples(st.sampled_from(sorted(REQUESTS)), st.integers(0, 4)), min_size=2,
                max_size=10), st.sampled_from((16, 64, 1024)))  # fmt: skip
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_interleaving_gives_each_what_it_gets_alone(models, answers_alone, requests, tokens):
    """Requests of every kind that begin at any moments, over batches of any size."""
    scheduler = Scheduler(batch_tokens=tokens)
    scheduler.start()

    def answer(request):
        name, delay = request
        time.sleep(delay / 1000)
        with scheduler.serving(Work()):
            return REQUESTS[name](models)

    try:
        with ThreadPoolExecutor(len(requests)) as pool:
            found = list(pool.map(answer, requests))
    finally:
        scheduler.stop()
    for (name, _), own in zip(requests, found, strict=True):
        expected = answers_alone[name]
        if name in ("embed", "several", "labels", "score"):
            np.testing.assert_allclose(own, expected, atol=1e-5)
        else:
            assert own == expected
    assert scheduler.tokens == 0 and scheduler.growing == 0 and scheduler.failures == 0


def test_memory_is_reserved_for_all_rows_of_a_prompt(models):
    """Two prompts that each become 40 texts take turns if there is memory for 50."""
    begun = []
    decoding = Decoding(models["gpt2"].model, lambda: None, 50 * 20, 1024)
    for number in range(2):
        rows = SharedRows(decoding, Work(), width=40)
        rows._reply = lambda number=number: begun.append(number)
        rows.prefill([[1, 2, 3]], 17, None)
    assert [each.reserved for each in decoding._beginning()] == [40]
    decoding.advance()
    assert decoding.waiting == 1


def test_what_fails_fails_alone(scheduler, models):
    model = models["bert"]

    def forward(inputs):
        if "bad" in inputs:
            raise InputError("this input is bad; take another.")
        return [each.upper() for each in inputs]

    def request(inputs):
        with scheduler.serving(Work()):
            computation = Computation("upper", forward)
            try:
                return compute_in_order(model.model, inputs, [1] * len(inputs), computation)
            except InputError as error:
                return str(error)

    lists = [["a", "b"], ["bad"], ["c"], ["d", "bad", "e"], ["f"]]
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(request, lists))
    sentence = "this input is bad; take another."
    assert found == [["A", "B"], sentence, ["C"], sentence, ["F"]]
    assert scheduler.failures == 0


def broken(inputs):
    raise RuntimeError("not enough memory")


def test_failures_in_a_row_end_the_thread(scheduler, models):
    def ask(forward):
        with scheduler.serving(Work()):
            return compute_in_order(models["bert"].model, [1], [1], Computation(forward, forward))

    for _ in range(3):
        with pytest.raises(RuntimeError, match="memory"):
            ask(broken)
    assert ask(list) == [1] and scheduler.fatal is None
    until = time.monotonic() + 5
    while scheduler.failures and time.monotonic() < until:  # counted after the answer is given
        time.sleep(0.001)
    assert scheduler.failures == 0
    for _ in range(5):
        with pytest.raises(RuntimeError, match="memory"):
            ask(broken)
    scheduler._thread.join(5)
    assert isinstance(scheduler.fatal, RuntimeError)
    with pytest.raises(ServerStopped):
        ask(list)


def test_work_that_nobody_wants_is_dropped(models):
    scheduler, work = Scheduler(), Work()
    errors = []

    def request():
        try:
            with scheduler.serving(work):
                models["bert"].embed(TEXTS)
        except ClozeworksError as error:
            errors.append(error)

    thread = threading.Thread(target=request)
    thread.start()
    while not scheduler.waiting:
        time.sleep(0.01)
    work.cancel()
    thread.join(5)
    assert isinstance(errors[0], Cancelled) and scheduler.tokens == 0
    scheduler.start()
    deadline = time.monotonic() + 5
    while scheduler.waiting and time.monotonic() < deadline:
        time.sleep(0.01)
    scheduler.stop()
    assert scheduler.batches == 0 and not scheduler.waiting


def test_a_text_that_nobody_wants_stops_growing(scheduler, models):
    work = Work()
    with scheduler.serving(work), pytest.raises(Cancelled):
        for number, _ in enumerate(models["gpt2"].stream("the cat", max_new_tokens=80)):
            if number == 3:
                work.cancel()
    deadline = time.monotonic() + 5
    while scheduler.growing and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not scheduler.growing


def test_a_deadline(models):
    scheduler = Scheduler()
    late = pytest.raises(DeadlinePassed, match=r"the answer took longer than 0.05 s; send less")
    with late, scheduler.serving(Work(seconds=0.05)):
        models["bert"].embed("the cat")
    with pytest.raises(DeadlinePassed), scheduler.serving(Work(seconds=0.05)):
        models["gpt2"].generate("the cat")
    scheduler.start()
    scheduler.stop()


def test_too_much_is_refused_and_what_is_alone_is_not(models):
    scheduler = Scheduler(most_tokens=10)
    found = []

    def request():
        with scheduler.serving(Work()):
            found.append(models["bert"].embed(TEXTS).shape)

    thread = threading.Thread(target=request)
    thread.start()
    while not scheduler.waiting:
        time.sleep(0.01)
    refused = pytest.raises(Overloaded, match=r"tokens are in hand, .* more would be too many")
    with refused, scheduler.serving(Work()):
        models["bert"].embed("the cat")
    scheduler.start()
    thread.join(10)
    assert found == [(24, 32)] and scheduler.tokens == 0
    scheduler.stop()
    with pytest.raises(ServerStopped), scheduler.serving(Work()):
        models["bert"].embed("the cat")


def test_what_was_done_is_counted(scheduler, models):
    work = Work()
    with scheduler.serving(work):
        models["bert"].embed(["the cat", "the dog"])
    tokens = sum(len(each.ids) for each in models["bert"].tokenizer.encode(["the cat", "the dog"]))
    assert work.tokens == tokens and work.written == 0
    assert work.timings.inference > 0 and work.timings.queue >= 0
    with scheduler.serving(work := Work()):
        text = models["gpt2"].generate("the cat", max_new_tokens=7)
    prompt = len(models["gpt2"].tokenizer.encode(["the cat"])[0].ids)
    assert work.tokens == prompt and len(text.tokens) - 1 <= work.written <= len(text.tokens)


def test_outside_of_a_request_nothing_changes(scheduler, models):
    with scheduler.serving(Work()):
        inside = models["bert"].embed(TEXTS)
    assert scheduler.batches
    before = scheduler.batches
    np.testing.assert_allclose(models["bert"].embed(TEXTS), inside, atol=1e-6)
    assert scheduler.batches == before
    assert BatchOptions() == BatchOptions()
