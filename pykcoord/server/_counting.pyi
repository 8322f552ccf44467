"""Types of the Cython module of the same name."""

LATENCY_BOUNDS: tuple[float, ...]

class Counts:
    def requests(self) -> dict[int, tuple[int, float, list[int]]]: ...
