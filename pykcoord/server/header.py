"""The header of a request of a node-level API, by the native core's reader."""

from __future__ import annotations

import struct

from pykcoord import protocol

HEADER = struct.Struct(">hhi")
"""API key, version and correlation id, with which every header begins."""


class BadFrameError(ValueError):
    """A frame that cannot be parsed or is not served; its text is the reason."""


def body_at(frame: bytes, flexible: bool) -> int:
    """Where the body begins: after the client id and, in flexible versions, the tags. Raises
    BadFrameError for what is no header."""
    try:
        return protocol.body_at(frame, flexible)
    except ValueError as error:
        raise BadFrameError(f"request header: {error}") from error
