"""Types of _freeing.pyx: large buffers, freed some at a time."""

AT_ONCE_BYTES: int

class Freeing:
    @property
    def bytes_left(self) -> int: ...
    def take(self, buffer: bytes | None) -> int: ...
