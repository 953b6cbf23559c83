"""Pieces of a stream between the thread that makes them and the loop that sends them."""

import asyncio

import pytest

from clozeworks.inference.loop import Cancelled
from clozeworks.serve.pieces import Pieces


def test_pieces_come_in_order_until_the_thread_has_ended():
    async def check():
        loop = asyncio.get_running_loop()
        pieces = Pieces(loop, 100)

        def make():
            for number in range(5):
                pieces.put(b"%d" % number)
            raise RuntimeError("broken")

        done = loop.run_in_executor(None, make)
        done.add_done_callback(pieces.end)
        found = []
        while (piece := await pieces.next()) is not None:
            found.append(piece)
        assert found == [b"0", b"1", b"2", b"3", b"4"]
        with pytest.raises(RuntimeError, match="broken"):
            await done

    asyncio.run(check())


def test_what_is_left_unread_is_bounded():
    async def check():
        pieces = Pieces(asyncio.get_running_loop(), 10)
        pieces.put(b"x" * 50)  # one is always taken
        sentence = (
            r"50 bytes of the stream were left unread, more than are kept \(10\); read faster"
        )
        with pytest.raises(Cancelled, match=sentence):
            pieces.put(b"y")
        assert await pieces.next() == b"x" * 50
        pieces.put(b"y")
        assert await pieces.next() == b"y"

    asyncio.run(check())
