from typing import NamedTuple

class Outcome(NamedTuple):
    found_size: int
    links: int
    write_error: int
    sync_error: int
    lock_error: int = 0

def write_files(
    files: list[tuple[int, int, list[bytes]]],
    sync: bool,
    lock: tuple[bytes, int, int] | None = None,
) -> list[Outcome | None]: ...
def sync_files(descriptors: list[int]) -> list[int]: ...
