"""Answers under way: what takes an engine's tokens and sends them to a client."""

import asyncio
from collections.abc import Callable

from neuronfleet.serving.emulator.replies import Frames
from neuronfleet.serving.emulator.tokens import WIDTH, Output

BUFFER_LIMIT = 1 << 20
"""Bytes that a slow client may leave unread before it is dropped: about 5,000 chunks."""


class WholeReply:
    """An answer that is sent when all its sequences have ended."""

    def __init__(self, outputs: tuple[Output, ...]) -> None:
        self._left = len(outputs)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def taker(self, output: Output) -> "WholeChoice":
        """What takes the tokens of one sequence."""
        return WholeChoice(output.tokens, self._ended)

    def _ended(self) -> None:
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)


class WholeChoice:
    """One sequence of it."""

    __slots__ = ("_ended", "_tokens")

    def __init__(self, tokens: int, ended: Callable[[], None]) -> None:
        self._tokens = tokens
        self._ended = ended

    def take(self, produced: int) -> None:
        """Note the end."""
        if produced >= self._tokens:
            self._ended()


class StreamReply:
    """An answer that is sent token by token, straight to the transport.

    A write of the response per token would switch to the handler's task and back each time:
    sixteen engines of 31 streams do that ten thousand times a second. The handler sends the
    headers and waits for `done`; in between, the engine's step writes.
    """

    def __init__(
        self, transport: asyncio.Transport, choices: int, closing: bytes, openings: bytes
    ) -> None:
        self._transport = transport
        self._left = choices
        self._closing = closing
        self._openings = openings
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def send(self, event: bytes, *, last: bool) -> None:
        """Send one event as an HTTP chunk, and with the last one what closes the answer."""
        if self._openings:
            event, self._openings = self._openings + event, b""
        if last:
            self._left -= 1
            if not self._left:
                event += self._closing
                if not self.done.done():
                    self.done.set_result(None)
        self.write(b"%x\r\n%b\r\n" % (len(event), event))

    def write(self, data: bytes) -> None:
        """Send bytes that are framed already."""
        transport = self._transport
        if transport.is_closing():
            return
        if transport.get_write_buffer_size() > BUFFER_LIMIT:
            # The handler is cancelled by the lost connection, and frees the slot.
            transport.abort()
            return
        transport.write(data)


class StreamChoice:
    """One sequence of it."""

    __slots__ = ("_due", "_end", "_frames", "_head", "_interval", "_output", "_reply", "_sent")

    def __init__(self, reply: StreamReply, frames: Frames, output: Output, interval: int) -> None:
        self._reply = reply
        self._frames = frames
        self._output = output
        self._interval = interval
        self._sent = 0
        self._due = 1
        """Tokens with which the next chunk goes: the first at once, then one an interval."""
        # A chunk of one plain token has a fixed length, so all of it but the word is made once:
        # this is what ten thousand chunks a second are.
        self._head, self._end = b"", b""
        if interval == 1 and output.plain and not frames.counted:
            chunk = frames.chunk(b" " * WIDTH, 1, last=False)
            at = len(frames.before)
            self._head = b"%x\r\n%b" % (len(chunk), chunk[:at])
            self._end = chunk[at + WIDTH :] + b"\r\n"

    def take(self, produced: int) -> None:
        """Send what is due."""
        if self._head and 1 < produced < self._output.tokens:
            self._sent = produced
            self._reply.write(self._head + self._output.word(produced - 1) + self._end)
            return
        last = produced >= self._output.tokens
        if produced < self._due and not last:
            return
        self._due = produced + self._interval
        text = self._output.piece(self._sent, produced)
        self._sent = produced
        self._reply.send(self._frames.chunk(text, produced, last=last), last=last)
