"""Types of the Cython module of the same name."""

class Halves:
    most: int
    @property
    def bytes(self) -> int: ...
    def __len__(self) -> int: ...
