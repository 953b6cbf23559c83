"""What a command has written is what it counts, whenever it is stopped."""

import signal

import pytest

from clozeworks.cli.outputs import uninterrupted


def test_a_signal_waits_for_the_end_of_the_block():
    handler, written = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        written.append("a text")
    assert written == ["a text"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_error_of_the_block_comes_out():
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(OSError, match="full"), uninterrupted():
        raise OSError("full")
    assert signal.getsignal(signal.SIGTERM) is handler
