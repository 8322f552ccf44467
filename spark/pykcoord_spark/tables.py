"""Arrow tables as bytes and back: in the shard log, and between workers."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

__all__ = ["packed", "unpacked"]


def packed(table: pa.Table, compression: Literal["lz4"] | None = None) -> bytes:
    """The table as a stream of Arrow's IPC format, schema included."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpacked(content: bytes | pa.Buffer) -> pa.Table:
    """The table of `packed`, without a copy where it is not compressed."""
    return pa.ipc.open_stream(content).read_all()
