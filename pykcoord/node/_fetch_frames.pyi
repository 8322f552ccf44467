from typing import Final

class Asked:
    replica: Final[int]
    replica_epoch: Final[int]
    wait_ms: Final[int]
    min_bytes: Final[int]
    max_bytes: Final[int]
    session_id: Final[int]
    session_epoch: Final[int]
    named: Final[list[tuple[bytes, int, int, int, int, int]]]
    forgotten: Final[list[tuple[bytes, int]]]

    def __init__(self, frame: bytes) -> None: ...

Partition = tuple[int, int, int, int, int, bytes, tuple[int, int] | None, tuple[int, int] | None]

def answer(
    correlation_id: bytes,
    error: int,
    session_id: int,
    topics: list[tuple[bytes, list[Partition]]],
) -> bytes: ...
