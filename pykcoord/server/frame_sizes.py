"""What is said of a frame whose size cannot be: mostly another protocol begins so.

The first four bytes of a connection are all that is looked at, read as Kafka's frame size.
"""

from __future__ import annotations

__all__ = ["unfit_size"]

_HTTP = {int.from_bytes(verb, "big") for verb in (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI")}
_HANDSHAKE = 0x16_03  # of TLS: the record's type, and the first byte of its version


def unfit_size(size: int, most: int) -> str:
    """The reason for which a frame of `size` bytes is refused, where `most` are read."""
    reason = f"frame of {size} bytes, socket.request.max.bytes={most}"
    if size in _HTTP:
        reason += "; it is an HTTP request: metrics and console have ports of their own"
    elif size >> 16 == _HANDSHAKE:
        reason += "; it is a TLS handshake, and there is no TLS here: set the client's "
        reason += "security.protocol to PLAINTEXT"
    return reason
