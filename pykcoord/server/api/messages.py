"""Answers as bytes, in slices: from the fields that a handler gives to the response of a version.

A handler answers with the fields of every version; those that a version has are written. Arrays of
structures may be anything that can be iterated over, also what is made only then: a long
answer costs one element at a time. A future among them is waited for. kio's message classes say
what a version has.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import typing
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sized
from functools import cache
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server._responses import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    MILLISECONDS,
    STRING,
    STRUCT,
    UUID_,
    Item,
    Layout,
)
from pykcoord.server.api import later

NO_THROTTLE = datetime.timedelta(0)
NONE = ErrorCode.none
# Among the elements of an array: no element, only a piece of work that was done for some.
PAUSE: Any = None
# One slice: so many elements are written or looked at, or so many bytes are written.
SLICE_ELEMENTS = 64
SLICE_BYTES = 16 * 1024
# So many elements that are only looked at cost as much as one that is written.
LOOKED_AT = 4
# Under this name: the tagged fields of a whole response, as bytes with their count in front.
TAGS = "tags"

Fields = Mapping[str, Any]
# Yields after each slice, or what to wait for.
Slices = Generator[asyncio.Future[Any] | None]
_T = typing.TypeVar("_T")

_API_VERSIONS = 18
_KINDS = {
    "bool": BOOL,
    "int8": INT8,
    "int16": INT16,
    "error_code": INT16,
    "int32": INT32,
    "int64": INT64,
    "datetime_i64": INT64,
    "timedelta_i32": MILLISECONDS,
    "uuid": UUID_,
    "string": STRING,
    "bytes": BYTES,
    "records": BYTES,
}


class Each:
    """`make(element)` of each of `elements`, made when it is asked for."""

    def __init__(self, make: Callable[[Any], Any], elements: Any) -> None:
        self._make = make
        self._elements = elements

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, self._elements)


class Slicer:
    """Writes one response at the end of `out`, slice by slice."""

    def __init__(self, out: bytearray) -> None:
        self.out = out
        self._count = 0
        self._elements = 0
        self._end = len(out) + SLICE_BYTES

    def spend(self, elements: int) -> None:
        """Something else was done that costs as much as so many elements."""
        self._count += elements

    def take_count(self) -> int:
        """What was done since the last call, in elements: what a slice may have of them, at the
        end of a slice whose bytes are used up."""
        count, self._count = self._count, 0
        return count

    def spending(self, work: Generator[None, None, _T]) -> Generator[None, None, _T]:
        """Other work, of which each step costs a slice."""
        while True:
            try:
                next(work)
            except StopIteration as ended:
                result: _T = ended.value
                return result
            self.spend(SLICE_ELEMENTS)
            yield

    def write_response(self, key: int, version: int, fields: Fields) -> Slices:
        """What follows the correlation id: the header's tags, if it has any, and the body."""
        layout = _response_layout(key, version)
        # ApiVersions answers with header v0 in all versions: its client knows nothing yet.
        if layout.is_flexible and key != _API_VERSIONS:
            self.out.append(0)
        yield from self._write_parts(layout, fields)
        if layout.is_flexible and TAGS in fields:
            self.out += fields[TAGS]
        else:
            layout.write_end(self.out)
        self._count += self._elements

    def _write(self, layout: Layout, fields: Fields) -> Slices:
        yield from self._write_parts(layout, fields)
        layout.write_end(self.out)

    def _write_parts(self, layout: Layout, fields: Fields) -> Slices:
        for item in layout.parts:
            if item.is_in_parts:
                yield from self._array(item, item.value(fields))
            else:
                item.write(self.out, fields)

    def _array(self, item: Item, elements: Iterable[Fields] | None) -> Slices:
        out, layout = self.out, item.layout
        assert layout is not None
        if elements is None:
            item.write_count(out, -1)
            return
        start = len(out)
        is_counted = isinstance(elements, Sized)
        if is_counted:
            item.write_count(out, len(elements))  # type: ignore[arg-type]
        count = 0
        has_arrays = layout.has_arrays
        for fields in elements:
            if isinstance(fields, asyncio.Future):
                self._count, self._elements = self._count + self._elements, 0
                yield fields
                continue
            if fields is not PAUSE:
                count += 1
                if has_arrays:
                    yield from self._write(layout, fields)
                else:
                    layout.write(out, fields)
            self._elements += 1
            if self._elements >= SLICE_ELEMENTS or len(out) >= self._end:
                self._count += SLICE_ELEMENTS
                yield None
                self._elements = 0
                self._end = len(out) + SLICE_BYTES
        if not is_counted:
            item.insert_count(out, start, count)


@cache
def _response_layout(key: int, version: int) -> Layout:
    return _layout(later.response_schema(key, version))


@cache
def _layout(schema: Any) -> Layout:
    hints = typing.get_type_hints(schema)
    is_flexible = bool(schema.__flexible__)
    parts = [
        _item(field, hints[field.name], is_flexible)
        for field in dataclasses.fields(schema)
        if "tag" not in field.metadata
    ]
    return Layout(parts, is_flexible)


def _item(field: dataclasses.Field[Any], hint: Any, is_flexible: bool) -> Item:
    inner, is_array, is_nullable = parts_of(hint)
    kafka_type = field.metadata.get("kafka_type")
    default = NO_THROTTLE if field.name == "throttle_time" else field.default
    return Item(
        field.name,
        STRUCT if kafka_type is None else _KINDS[kafka_type],
        is_array=is_array,
        is_nullable=is_nullable,
        is_compact=is_flexible,
        layout=_layout(inner) if kafka_type is None else None,
        default=default,
        is_required=default is dataclasses.MISSING,
    )


def parts_of(hint: Any) -> tuple[Any, bool, bool]:
    """What a field of kio's classes holds, whether it is an array of it, whether it may be null."""
    if typing.get_origin(hint) is tuple:
        return typing.get_args(hint)[0], True, False
    inner = [of for of in typing.get_args(hint) if of is not type(None)]
    if len(inner) == 1:
        return *parts_of(inner[0])[:2], True
    return hint, False, False
