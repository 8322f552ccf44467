from typing import NamedTuple

class Outcome(NamedTuple):
    found_size: int
    links: int
    write_error: int
    sync_error: int

def write_files(files: list[tuple[int, int, list[bytes]]], sync: bool) -> list[Outcome | None]: ...
