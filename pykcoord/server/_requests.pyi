"""Types of the Cython module of the same name."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

BOOL: int
INT8: int
INT16: int
INT32: int
INT64: int
MILLISECONDS: int
UUID_: int
STRING: int
BYTES: int
STRUCT: int

class MalformedError(ValueError): ...

class Field:
    def __init__(
        self,
        name: str,
        kind: int,
        *,
        is_array: bool = False,
        is_nullable: bool = False,
        shape: Shape | None = None,
        default: Any = None,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> int: ...
    @property
    def is_array(self) -> bool: ...
    @property
    def is_nullable(self) -> bool: ...
    @property
    def shape(self) -> Shape | None: ...
    @property
    def default(self) -> Any: ...

class Shape:
    def __init__(
        self,
        fields: list[Field],
        tagged: dict[int, Field],
        is_flexible: bool,
        make: Callable[[Sequence[Any]], Any],
    ) -> None: ...
    @property
    def fields(self) -> list[Field]: ...
    @property
    def tagged(self) -> dict[int, Field]: ...
    @property
    def is_flexible(self) -> bool: ...
    @property
    def smallest(self) -> int: ...

class Walk:
    def __init__(self, shape: Shape, frame: bytes, at: int, most_elements: int) -> None: ...
    @property
    def at(self) -> int: ...
    @property
    def elements(self) -> int: ...
    def go_on(self, most: int) -> bool: ...
    def read(self) -> Any: ...

class Elements:
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
