"""A request on its way, and the connection that it goes over."""

import asyncio
import time

from kwire import APIS, WireError, decode_response


class Call:
    """A request on its way, then its answer."""

    def __init__(self, index, who, api, version):
        self.index, self.who, self.api, self.version = index, who, api, version
        self.sent = time.monotonic()
        self.raw = None  # the answer as decoded
        self.reply = None  # the answer, normalised
        self.error = None  # how it failed: closed, undecodable
        self.arrived = None
        self.dropped = False  # we closed the connection ourselves
        self.member_id = ""  # as asked for
        self.instance = None
        self.shape = None  # of a member id that this answer gave out
        self.done = asyncio.Event()

    @property
    def answered(self):
        return self.raw is not None or self.error is not None


class Connection:
    """One TCP connection. Answers must come in request order."""

    def __init__(self, reader, writer, on_answer):
        self.reader, self.writer, self.on_answer = reader, writer, on_answer
        self.waiting = []  # (correlation id, call), oldest first
        self.correlation = 0
        self.closed = False
        self.task = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, server, on_answer=lambda call: None):
        reader, writer = await asyncio.wait_for(asyncio.open_connection(server.host, server.port, limit=1 << 24), 5)
        return cls(reader, writer, on_answer)

    def next_id(self):
        self.correlation += 1
        return self.correlation

    def send(self, call, data):
        self.waiting.append((self.correlation, call))
        self.writer.write(data)

    async def _read(self):
        try:
            while True:
                size = int.from_bytes(await self.reader.readexactly(4), "big", signed=True)
                payload = await self.reader.readexactly(size)
                self._answer(payload)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        self.closed = True
        for _, call in self.waiting:
            self._finish(call, error="connection closed by the server")
        self.waiting.clear()
        self.writer.close()

    def _answer(self, payload):
        if not self.waiting:
            return
        expected, call = self.waiting.pop(0)
        got = int.from_bytes(payload[:4], "big", signed=True)
        if got != expected:
            self._finish(call, error=f"answer {got - expected:+} out of order")
        elif call.api is None:
            self._finish(call, raw={"frame": payload[4:]})
        else:
            try:
                self._finish(call, raw=decode_response(APIS[call.api], call.version, payload))
            except (WireError, UnicodeDecodeError) as e:
                self._finish(call, error=f"undecodable: {e}")

    def _finish(self, call, raw=None, error=None):
        call.raw, call.error, call.arrived = raw, error, time.monotonic()
        self.on_answer(call)
        call.done.set()

    def close(self):
        for _, call in self.waiting:
            call.dropped = True
            call.done.set()
        self.waiting.clear()
        self.task.cancel()
        self.closed = True
        self.writer.close()
