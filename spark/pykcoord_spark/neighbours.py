"""The worker of an executor that has a shard loaded serves the rows of workers that get its task.

Spark gives a task to any idle worker. Each worker would have to apply again what the others have
served meanwhile: an executor of sixteen workers would do everything sixteen times. So a worker that
has a shard listens, and the others send it their rows. (A link with the shard's name leads to its
socket, in a folder that Spark makes for the executor.) This only saves time. A worker that gets no
answer serves the rows itself, and the shard's log decides which worker may write. Nothing here uses
Spark.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from pykcoord_spark.tables import packed, unpacked

__all__ = ["Neighbours", "Serve", "shard_name"]

# The answers to a micro-batch (name of the shard, source, sequence, rows). None: not from here.
Serve = Callable[[str, str, int, pa.Table], pa.Table | None]

# Spark's own folders of this executor, which go when it goes.
_FOLDERS = "SPARK_LOCAL_DIRS"
# A worker that serves says so this often. After this much silence it counts as stopped, and the
# shard's log takes nothing that it writes later.
_BEAT_S = 2.0
_PATIENCE_S = 30.0
_PAUSE_S = 0.1
_REQUEST = struct.Struct(">qIIQ")  # sequence, bytes of the name, of the source, of the rows
_ANSWER = struct.Struct(">BQ")  # one of these, and the bytes of the answers
_NOT_HERE, _ANSWERED, _STILL_AT_IT = range(3)


class Neighbours:
    """The other workers of this executor. Thread-safe. `serve` is called in threads of its own, for
    rows that other workers send; if it raises, the sender gets no answer and serves them itself.
    """

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._lock = threading.Lock()
        self._socket: str | None = None

    def ask(self, name: str, source: str, sequence: int, rows: pa.Table) -> pa.Table | None:
        """The answer of the worker that has the shard; None if that is this worker, if no worker
        has it, or if there is no answer.
        """
        try:
            with _here() as here:
                holder = os.readlink(f"{here}/{_link(name)}")
                if holder == self._socket:
                    return None
                return _asked(f"{here}/{holder}", (name, source), sequence, rows)
        except OSError:
            return None

    def hold(self, name: str) -> None:
        """From now on others ask for this shard here."""
        with contextlib.suppress(OSError), self._lock, _here() as here:
            self._socket = self._socket or self._listen(here)
            link = f"{here}/{_link(name)}"
            if os.path.lexists(link) and os.readlink(link) == self._socket:
                return
            made = f"{link}-{uuid.uuid4().hex}"
            os.symlink(self._socket, made)
            os.replace(made, link)

    def _listen(self, here: str) -> str:
        listening, own = socket.socket(socket.AF_UNIX), f"kcoord-{os.getpid()}-{uuid.uuid4().hex}"
        listening.bind(f"{here}/{own}")
        listening.listen()
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()
        return own

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                asking, _ = listening.accept()
            except OSError:  # too many open files, say
                time.sleep(_PAUSE_S)
                continue
            threading.Thread(target=self._hear, args=(asking,), daemon=True).start()

    def _hear(self, asking: socket.socket) -> None:
        with contextlib.suppress(OSError), asking, asking.makefile("rwb") as stream:
            asking.settimeout(_PATIENCE_S)
            sequence, *sizes = _REQUEST.unpack(_exactly(stream, _REQUEST.size))
            name, source, content = (_exactly(stream, size) for size in sizes)
            told: list[pa.Table] = []
            is_done = threading.Event()

            def serve() -> None:
                with contextlib.suppress(Exception):
                    rows = unpacked(content)
                    answers = self._serve(name.decode(), source.decode(), sequence, rows)
                    if answers is not None:
                        told.append(answers)
                is_done.set()

            threading.Thread(target=serve, daemon=True).start()
            while not is_done.wait(_BEAT_S):
                stream.write(_ANSWER.pack(_STILL_AT_IT, 0))
                stream.flush()
            answer = packed(told[0]) if told else b""
            stream.write(_ANSWER.pack(_ANSWERED if told else _NOT_HERE, len(answer)) + answer)


def _asked(path: str, texts: tuple[str, str], sequence: int, rows: pa.Table) -> pa.Table | None:
    """Raises OSError if no worker answers there."""
    content = packed(rows)
    encoded = [text.encode() for text in texts]
    head = _REQUEST.pack(sequence, *map(len, encoded), len(content))
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(_PATIENCE_S)
        try:
            asked.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)  # of a worker that is gone
            raise
        with asked.makefile("rwb") as stream:
            stream.write(b"".join((head, *encoded, content)))
            stream.flush()
            said = _STILL_AT_IT
            while said == _STILL_AT_IT:
                said, size = _ANSWER.unpack(_exactly(stream, _ANSWER.size))
            return unpacked(_exactly(stream, size)) if said == _ANSWERED else None


def shard_name(*what: object) -> str:
    """A short name for all that makes two loaded shards the same."""
    return hashlib.blake2b(repr(what).encode(), digest_size=16).hexdigest()


def _link(name: str) -> str:
    return f"kcoord-{name}"


@contextlib.contextmanager
def _here() -> Iterator[str]:
    """A path of the executor's folder that is short enough for the name of a socket (107 bytes).

    Raises FileNotFoundError where there is no executor.
    """
    folder = os.environ.get(_FOLDERS, "").split(",")[0]
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        short = f"/proc/self/fd/{descriptor}"
        yield short if os.path.isdir(short) else folder
    finally:
        os.close(descriptor)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _exactly(stream: _Readable, size: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise ConnectionError("the other side is gone")
    return content
