# cython: language_level=3, boundscheck=False, wraparound=False
"""Requests as bytes: checked whole before anything is made of them, then read piece by piece.

`Shape.check` walks a request by the shape of its API and version. It believes no count and no
length before the bytes are there, and reserves nothing. What passes is read by `Shape.read`:
plain values now, the elements of arrays only when they are asked for, one by one. A request of
a hundred thousand elements thus costs its bytes and no more.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t, uint8_t

from datetime import timedelta
from uuid import UUID

# Kinds of fields. The size of what is fixed; 0 for what says its own.
BOOL, INT8, INT16, INT32, INT64, MILLISECONDS, UUID_, STRING, BYTES, STRUCT = range(10)
cdef int[10] _SIZES
_SIZES[:] = [1, 1, 2, 4, 8, 4, 16, 0, 0, 0]
cdef int _STRING = STRING, _BYTES = BYTES, _STRUCT = STRUCT


class MalformedError(ValueError):
    """Bytes that are no request of this shape; the text says what is wrong with them."""


cdef struct Cursor:
    const uint8_t* data
    Py_ssize_t at
    Py_ssize_t end
    Py_ssize_t elements
    Py_ssize_t most_elements


cdef int _need(Cursor* c, Py_ssize_t size) except -1:
    if size > c.end - c.at:
        raise MalformedError(f"{size} bytes are claimed where {c.end - c.at} are left")
    return 0


cdef int64_t _signed(Cursor* c, int size) except? -1:
    """A big-endian number of 1, 2, 4 or 8 bytes."""
    cdef uint64_t value = 0
    cdef int index
    _need(c, size)
    for index in range(size):
        value = (value << 8) | c.data[c.at + index]
    c.at += size
    if size < 8 and value >> (8 * size - 1):
        return <int64_t>value - (<int64_t>1 << (8 * size))
    return <int64_t>value


cdef Py_ssize_t _uvarint(Cursor* c) except -1:
    cdef uint64_t value = 0
    cdef uint8_t byte
    cdef int index
    for index in range(5):
        _need(c, 1)
        byte = c.data[c.at]
        c.at += 1
        value |= <uint64_t>(byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return <Py_ssize_t>value
    raise MalformedError("a varint of more than 5 bytes")


cdef int _check_text(const uint8_t* data, Py_ssize_t length) except -1:
    cdef Py_ssize_t index
    for index in range(length):
        if data[index] >= 0x80:
            try:
                PyUnicode_DecodeUTF8(<const char*>data, length, NULL)
            except UnicodeDecodeError as error:
                raise MalformedError("a string is not UTF-8") from error
            return 0
    return 0


cdef class Field:
    """One field of a shape: `kind` is one of the constants of this module; `shape` is that of a
    STRUCT. `default` is the value of a tagged field that is absent."""

    cdef readonly str name
    cdef readonly int kind
    cdef readonly bint is_array
    cdef readonly bint is_nullable
    cdef readonly Shape shape
    cdef readonly object default
    cdef bint is_compact

    def __init__(self, str name not None, int kind, *, bint is_array=False,
                 bint is_nullable=False, Shape shape=None, default=None):
        if (kind == _STRUCT) != (shape is not None):
            raise ValueError(f"{name}: a shape belongs to a structure")
        if is_array and shape is not None and shape.smallest == 0:
            raise ValueError(f"{name}: a count of elements without bytes cannot be checked")
        self.name = name
        self.kind = kind
        self.is_array = is_array
        self.is_nullable = is_nullable
        self.shape = shape
        self.default = default

    cdef Py_ssize_t smallest(self, bint as_element):
        """The fewest bytes that it takes."""
        if self.is_array and not as_element:
            return 1 if self.is_compact else 4
        if self.kind == _STRUCT:
            return 1 if self.is_nullable and not as_element else self.shape.smallest
        if self.kind == _STRING:
            return 1 if self.is_compact else 2
        if self.kind == _BYTES:
            return 1 if self.is_compact else 4
        return _SIZES[self.kind]

    cdef Py_ssize_t length(self, Cursor* c, int size, bint is_nullable) except -2:
        """A length or count, -1 for null."""
        cdef int64_t length
        length = _uvarint(c) - 1 if self.is_compact else _signed(c, size)
        if length < -1:
            raise MalformedError(f"{self.name}: a length of {length}")
        if length == -1 and not is_nullable:
            raise MalformedError(f"{self.name} is null, which the protocol does not allow")
        return length

    cdef Py_ssize_t count(self, Cursor* c) except -2:
        """How many elements follow, -1 for null: all of them fit into the bytes that are left."""
        cdef Py_ssize_t count = self.length(c, 4, self.is_nullable)
        if count > 0:
            if count > (c.end - c.at) // self.smallest(True):
                raise MalformedError(
                    f"{self.name}: {count} elements are claimed where {c.end - c.at} bytes are left")
            c.elements += count
            if c.elements > c.most_elements:
                raise MalformedError(f"more than {c.most_elements} elements")
        return count

    cdef int skip(self, Cursor* c) except -1:
        cdef Py_ssize_t index, count
        if not self.is_array:
            return self.skip_value(c, self.is_nullable)
        count = self.count(c)
        if _SIZES[self.kind]:  # `count` has seen that they are there
            c.at += max(0, count) * _SIZES[self.kind]
            return 0
        for index in range(count):
            self.skip_value(c, False)
        return 0

    cdef int skip_value(self, Cursor* c, bint is_nullable) except -1:
        cdef Py_ssize_t length = _SIZES[self.kind]
        if self.kind == _STRUCT:
            if not is_nullable or not self.is_null(c):
                self.shape.skip(c)
            return 0
        if length == 0:
            length = max(0, self.length(c, 2 if self.kind == _STRING else 4, is_nullable))
        _need(c, length)
        if self.kind == _STRING:
            _check_text(c.data + c.at, length)
        c.at += length
        return 0

    cdef bint is_null(self, Cursor* c) except -1:
        """The byte before a structure that may be null (KIP-893)."""
        return _signed(c, 1) < 0

    cdef object read(self, bytes frame, Cursor* c):
        cdef Py_ssize_t start, count, index
        if not self.is_array:
            return self.read_value(frame, c, self.is_nullable)
        count = self.count(c)
        if count < 0:
            return None
        start = c.at
        if _SIZES[self.kind]:
            c.at += count * _SIZES[self.kind]
        else:
            for index in range(count):
                self.skip_value(c, False)
        return Elements(self, frame, start, count)

    cdef object read_value(self, bytes frame, Cursor* c, bint is_nullable):
        cdef Py_ssize_t length
        cdef const char* data
        if self.kind == _STRUCT:
            if is_nullable and self.is_null(c):
                return None
            return self.shape.read_at(frame, c)
        if self.kind == _STRING or self.kind == _BYTES:
            length = self.length(c, 2 if self.kind == _STRING else 4, is_nullable)
            if length < 0:
                return None
            _need(c, length)
            data = <const char*>c.data + c.at
            c.at += length
            if self.kind == _STRING:
                return PyUnicode_DecodeUTF8(data, length, NULL)
            return PyBytes_FromStringAndSize(data, length)
        if self.kind == UUID_:
            _need(c, 16)
            c.at += 16
            found = PyBytes_FromStringAndSize(<const char*>c.data + c.at - 16, 16)
            return UUID(bytes=found) if any(found) else None
        number = _signed(c, _SIZES[self.kind])
        if self.kind == BOOL:
            return number != 0
        if self.kind == MILLISECONDS:
            return timedelta(milliseconds=number)
        return number


cdef class Shape:
    """What a structure consists of: its `fields` in their order, and from a flexible version on
    its `tagged` fields by tag. `make(values)` makes an object of the values of all fields, those
    with tags behind the others in the order of their tags."""

    cdef readonly list fields
    cdef readonly dict tagged
    cdef readonly bint is_flexible
    cdef readonly Py_ssize_t smallest
    cdef object _make
    cdef list _tags

    def __init__(self, list fields not None, dict tagged not None, bint is_flexible, make):
        cdef Field field
        self.fields = fields
        self.tagged = tagged
        self.is_flexible = is_flexible
        self._make = make
        self._tags = sorted(tagged)
        for field in [*fields, *tagged.values()]:
            field.is_compact = is_flexible
        self.smallest = is_flexible
        for field in fields:
            self.smallest += field.smallest(False)

    def check(self, bytes frame not None, Py_ssize_t at, Py_ssize_t most_elements):
        """Where a request that begins at `at` ends, and how many elements its arrays have in all.
        Raises MalformedError where it is none, or has more than `most_elements`. What follows
        it is not looked at, as in Kafka."""
        cdef Cursor c = _cursor(frame, at, most_elements)
        self.skip(&c)
        return c.at, c.elements

    def read(self, bytes frame not None, Py_ssize_t at):
        """The request that begins at `at`: it must have passed `check`."""
        cdef Cursor c = _cursor(frame, at, PyBytes_GET_SIZE(frame))
        return self.read_at(frame, &c)

    cdef int skip(self, Cursor* c) except -1:
        cdef Field field
        for field in self.fields:
            field.skip(c)
        if self.is_flexible:
            self.walk_tags(None, c, None)
        return 0

    cdef object read_at(self, bytes frame, Cursor* c):
        cdef Field field
        cdef list values = []
        cdef dict found = {}
        for field in self.fields:
            values.append(field.read(frame, c))
        if self.is_flexible:
            self.walk_tags(frame, c, found)
            for tag in self._tags:
                if tag in found:
                    values.append(found[tag])
                else:
                    field = self.tagged[tag]
                    values.append(field.default)
        return self._make(values)

    cdef int walk_tags(self, bytes frame, Cursor* c, dict found) except -1:
        """Over the tagged fields; with a `frame` the known ones are read into `found`."""
        cdef Py_ssize_t count = _uvarint(c)
        cdef Py_ssize_t index, tag, size, end, last = -1
        cdef Field field
        for index in range(count):
            tag = _uvarint(c)
            size = _uvarint(c)
            _need(c, size)
            if tag <= last:
                raise MalformedError("tags are not in their order")
            last = tag
            end = c.at + size
            field = self.tagged.get(tag) if self.tagged else None
            if field is None:
                c.at = end
                continue
            if frame is None:
                field.skip(c)
            else:
                found[tag] = field.read(frame, c)
            if c.at != end:
                raise MalformedError(f"{field.name}: its tag says {size} bytes")
        return 0


cdef class Elements:
    """The elements of an array, read each time that they are asked for."""

    cdef Field _field
    cdef bytes _frame
    cdef Py_ssize_t _start
    cdef Py_ssize_t _count

    def __cinit__(self, Field field not None, bytes frame not None, Py_ssize_t start,
                  Py_ssize_t count):
        self._field = field
        self._frame = frame
        self._start = start
        self._count = count

    def __len__(self):
        return self._count

    def __iter__(self):
        cdef Cursor c = _cursor(self._frame, self._start, PyBytes_GET_SIZE(self._frame))
        cdef Py_ssize_t index
        for index in range(self._count):
            c.elements = 0
            yield self._field.read_value(self._frame, &c, False)


cdef Cursor _cursor(bytes frame, Py_ssize_t at, Py_ssize_t most_elements):
    cdef Cursor c
    if not 0 <= at <= PyBytes_GET_SIZE(frame):
        raise ValueError(f"no place in a frame of {PyBytes_GET_SIZE(frame)} bytes: {at}")
    c.data = <const uint8_t*>PyBytes_AS_STRING(frame)
    c.at = at
    c.end = PyBytes_GET_SIZE(frame)
    c.elements = 0
    c.most_elements = most_elements
    return c
