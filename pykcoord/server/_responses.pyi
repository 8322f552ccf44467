"""Types of the Cython module of the same name."""

from collections.abc import Mapping
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

class Item:
    def __init__(
        self,
        name: str,
        kind: int,
        *,
        is_array: bool,
        is_nullable: bool,
        is_compact: bool,
        layout: Layout | None,
        default: Any,
        is_required: bool,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def layout(self) -> Layout | None: ...
    @property
    def is_in_parts(self) -> bool: ...
    def value(self, fields: Mapping[str, Any]) -> Any: ...
    def write(self, out: bytearray, fields: Mapping[str, Any]) -> None: ...
    def write_count(self, out: bytearray, count: int) -> None: ...
    def insert_count(self, out: bytearray, at: int, count: int) -> None: ...

class Layout:
    def __init__(self, parts: list[Item], is_flexible: bool) -> None: ...
    @property
    def parts(self) -> list[Item]: ...
    @property
    def is_flexible(self) -> bool: ...
    @property
    def has_arrays(self) -> bool: ...
    def write(self, out: bytearray, fields: Mapping[str, Any]) -> None: ...
    def write_end(self, out: bytearray) -> None: ...
