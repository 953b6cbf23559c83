"""Signals: the first waits for the step, the second does not, the third ends the program."""

import signal
import threading

import pytest

from clozeworks.engine.stopping import Stop, StopNow

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def handlers():
    """What a signal did before, and does again afterwards."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield before
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_lets_the_step_end(number):
    with Stop() as stop:
        assert stop.signal == 0
        with stop.interruptible():
            signal.raise_signal(number)
            done = True
        assert done and stop.signal == number


def test_the_second_signal_ends_the_step():
    with Stop() as stop:
        with pytest.raises(StopNow), stop.interruptible():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            raise AssertionError("the step went on")
        assert stop.signal == signal.SIGINT


def test_a_second_signal_elsewhere_waits_for_the_next_step():
    with Stop() as stop:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(StopNow), stop.interruptible():
            raise AssertionError("the step was begun")


def test_the_third_signal_does_what_it_did_before():
    with Stop() as stop:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(StopNow), stop.interruptible():
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_among_several_ranks_every_signal_waits():
    """One that drops its step would leave the others waiting; torchrun sends signals twice."""
    with Stop(alone=False) as stop:
        with stop.interruptible():
            for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGTERM):
                signal.raise_signal(number)
        with stop.interruptible():
            pass
        assert stop.signal == signal.SIGINT


def test_in_another_thread_nothing_is_watched(handlers):
    found = []

    def run():
        with Stop() as stop, stop.interruptible():
            found.append({number: signal.getsignal(number) for number in SIGNALS})

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [handlers]


def test_signals_that_were_ignored_stay_so():
    """As below nohup, or for what a shell starts in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Stop() as stop:
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            signal.raise_signal(signal.SIGINT)
            assert stop.signal == 0
    finally:
        signal.signal(signal.SIGINT, before)
