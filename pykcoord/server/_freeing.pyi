"""Types of _freeing.pyx: large buffers, taken and freed some at a time."""

AT_ONCE_BYTES: int

def take_small_pages() -> bool: ...

class Freeing:
    @property
    def bytes_left(self) -> int: ...
    def take(self, buffer: bytes | None) -> int: ...
