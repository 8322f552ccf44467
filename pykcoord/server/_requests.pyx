# cython: language_level=3, boundscheck=False, wraparound=False
"""Requests as bytes: checked whole before anything is made of them, then read piece by piece.

A `Walk` checks a request against the shape of its API and version, some elements at a time. It
believes no count and no length before the bytes are there, and reserves no memory for them.
`Walk.read` then gives plain values, and arrays whose elements are read one by one when they are
asked for. So a request of a hundred thousand elements costs its bytes and no more.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint64_t, uint8_t

from datetime import timedelta
from uuid import UUID

# Kinds of fields, and their sizes in bytes; 0: the field begins with its length.
BOOL, INT8, INT16, INT32, INT64, MILLISECONDS, UUID_, STRING, BYTES, STRUCT = range(10)
cdef int[10] _SIZES
_SIZES[:] = [1, 1, 2, 4, 8, 4, 16, 0, 0, 0]
cdef int _STRING = STRING, _BYTES = BYTES, _STRUCT = STRUCT
# The most structures within each other.
cdef enum: DEEPEST = 8
# The end of a longer array is remembered, so that the array is walked once.
cdef Py_ssize_t SHORT_ARRAY = 256


class MalformedError(ValueError):
    """Bytes that are no request of this shape; the text says what is wrong with them."""


cdef struct Level:
    # A structure that is being walked. Its objects are borrowed: the outermost shape owns them.
    void* shape
    Py_ssize_t field     # the next one
    void* array          # the field whose elements are walked; NULL: none
    Py_ssize_t left      # its elements that were not walked yet
    Py_ssize_t begin     # where its elements begin
    Py_ssize_t walked    # elements of the request that were walked before them
    Py_ssize_t tags      # tagged fields that are left; -1: their number was not read yet
    Py_ssize_t last_tag


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


cdef int _count_elements(Cursor* c, Py_ssize_t count) except -1:
    c.elements += count
    if c.elements > c.most_elements:
        raise MalformedError(f"more than {c.most_elements} elements")
    return 0


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
        """How many elements follow, -1 for null. The bytes that are left have room for them."""
        cdef Py_ssize_t count = self.length(c, 4, self.is_nullable)
        if count > 0:
            if count > (c.end - c.at) // self.smallest(True):
                raise MalformedError(
                    f"{self.name}: {count} elements are claimed where {c.end - c.at} bytes are left")
            _count_elements(c, count)
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
        """Reads the byte before a structure that may be null (KIP-893)."""
        return _signed(c, 1) < 0

    cdef object read(self, bytes frame, Cursor* c, dict ends):
        cdef Py_ssize_t start, count, index
        if not self.is_array:
            return self.read_value(frame, c, self.is_nullable, ends)
        count = self.count(c)
        if count < 0:
            return None
        start = c.at
        if _SIZES[self.kind]:
            c.at += count * _SIZES[self.kind]
        elif ends and start in ends:
            c.at = ends[start]
        else:
            for index in range(count):
                self.skip_value(c, False)
        return Elements(self, frame, start, count, ends)

    cdef object read_value(self, bytes frame, Cursor* c, bint is_nullable, dict ends):
        cdef Py_ssize_t length
        cdef const char* data
        if self.kind == _STRUCT:
            if is_nullable and self.is_null(c):
                return None
            return self.shape.read_at(frame, c, ends)
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
    cdef int depth
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
        self.depth = 1
        for field in fields:
            self.smallest += field.smallest(False)
            if field.shape is not None:
                self.depth = max(self.depth, 1 + field.shape.depth)
        if self.depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} structures within each other")

    cdef int skip(self, Cursor* c) except -1:
        cdef Field field
        for field in self.fields:
            field.skip(c)
        if self.is_flexible:
            self.walk_tags(None, c, None, None)
        return 0

    cdef object read_at(self, bytes frame, Cursor* c, dict ends):
        cdef Field field
        cdef list values = []
        cdef dict found = {}
        for field in self.fields:
            values.append(field.read(frame, c, ends))
        if self.is_flexible:
            self.walk_tags(frame, c, found, ends)
            for tag in self._tags:
                if tag in found:
                    values.append(found[tag])
                else:
                    field = self.tagged[tag]
                    values.append(field.default)
        return self._make(values)

    cdef int walk_tags(self, bytes frame, Cursor* c, dict found, dict ends) except -1:
        """Walks the tagged fields; with a `frame`, reads the known ones into `found`."""
        cdef Py_ssize_t count = _uvarint(c)
        cdef Py_ssize_t index, last = -1
        for index in range(count):
            last = self.walk_tag(frame, c, last, found, ends)
        return 0

    cdef Py_ssize_t walk_tag(self, bytes frame, Cursor* c, Py_ssize_t last, dict found,
                             dict ends) except -1:
        """Walks one tagged field, whose tag must be above `last`; returns its tag."""
        cdef Py_ssize_t tag = _uvarint(c)
        cdef Py_ssize_t size = _uvarint(c)
        cdef Py_ssize_t end
        cdef Field field
        _need(c, size)
        if tag <= last:
            raise MalformedError("tags are not in their order")
        end = c.at + size
        field = self.tagged.get(tag) if self.tagged else None
        if field is None:  # unknown; it is work as an element is, and counts as one
            _count_elements(c, 1)
            c.at = end
            return tag
        if frame is None:
            field.skip(c)
        else:
            found[tag] = field.read(frame, c, ends)
        if c.at != end:
            raise MalformedError(f"{field.name}: its tag says {size} bytes")
        return tag


cdef class Walk:
    """One request of a `shape` that begins at `at` of a frame: checked by `go_on`, then `read`.
    Bytes behind the request are ignored, as in Kafka."""

    cdef bytes _frame
    cdef Shape _shape
    cdef Py_ssize_t _start
    cdef Py_ssize_t _walked
    cdef Cursor _cursor
    cdef Level[DEEPEST] _levels
    cdef int _depth
    cdef dict _ends

    def __init__(self, Shape shape not None, bytes frame not None, Py_ssize_t at,
                 Py_ssize_t most_elements):
        self._cursor = _cursor(frame, at, most_elements)
        self._shape = shape
        self._frame = frame
        self._start = at
        self._ends = {}
        self._enter(shape)

    @property
    def at(self):
        """How far the walk has come in the frame."""
        return self._cursor.at

    @property
    def elements(self):
        """The elements of all arrays that the walk has reached, and unknown tags."""
        return self._cursor.elements

    def go_on(self, Py_ssize_t most):
        """Walk `most` elements, or the rest. Returns whether the request ended. Raises
        MalformedError where the bytes are no request, or have more elements than `most_elements`."""
        cdef Py_ssize_t enough = self._walked + most
        while self._depth > 0:
            if self._walked >= enough:
                return False
            self._step(&self._cursor)
        return True

    def read(self):
        """The request. Raises ValueError unless `go_on` has reached its end."""
        cdef Cursor c = _cursor(self._frame, self._start, PyBytes_GET_SIZE(self._frame))
        if self._depth != 0:
            raise ValueError("a request is read when all of it was checked")
        return self._shape.read_at(self._frame, &c, self._ends)

    cdef int _enter(self, Shape shape) except -1:
        self._levels[self._depth] = Level(<void*>shape, 0, NULL, 0, 0, 0, -1, -1)
        self._depth += 1
        return 0

    cdef int _step(self, Cursor* c) except -1:
        """Walks one field, element or tag."""
        cdef Level* level = &self._levels[self._depth - 1]
        cdef Shape shape = <Shape>level.shape
        if level.array != NULL:
            return self._element(c, level)
        if level.field < len(shape.fields):
            return self._field(c, level, shape.fields[level.field])
        if shape.is_flexible:
            if level.tags < 0:
                level.tags = _uvarint(c)
            if level.tags > 0:
                level.tags -= 1
                self._walked += 1
                level.last_tag = shape.walk_tag(None, c, level.last_tag, None, None)
                return 0
        self._depth -= 1
        return 0

    cdef int _field(self, Cursor* c, Level* level, Field field) except -1:
        cdef Py_ssize_t count
        level.field += 1
        if field.is_array:
            count = field.count(c)
            if _SIZES[field.kind]:  # `count` has seen that they are there
                c.at += max(0, count) * _SIZES[field.kind]
            elif count > 0:
                level.array = <void*>field
                level.left = count
                level.begin = c.at
                level.walked = self._walked
        elif field.kind != _STRUCT:
            field.skip_value(c, field.is_nullable)
        elif not field.is_nullable or not field.is_null(c):
            self._enter(field.shape)
        return 0

    cdef int _element(self, Cursor* c, Level* level) except -1:
        cdef Field field = <Field>level.array
        if level.left == 0:
            if self._walked - level.walked > SHORT_ARRAY:
                self._ends[level.begin] = c.at
            level.array = NULL
            return 0
        level.left -= 1
        self._walked += 1
        if field.kind == _STRUCT:
            return self._enter(field.shape)
        return field.skip_value(c, False)


cdef class Elements:
    """The elements of an array. Each iteration reads them from the frame."""

    cdef Field _field
    cdef bytes _frame
    cdef Py_ssize_t _start
    cdef Py_ssize_t _count
    cdef dict _ends

    def __cinit__(self, Field field not None, bytes frame not None, Py_ssize_t start,
                  Py_ssize_t count, dict ends not None):
        self._field = field
        self._frame = frame
        self._start = start
        self._count = count
        self._ends = ends

    def __len__(self):
        return self._count

    def __iter__(self):
        cdef Cursor c = _cursor(self._frame, self._start, PyBytes_GET_SIZE(self._frame))
        cdef Py_ssize_t index
        for index in range(self._count):
            c.elements = 0
            yield self._field.read_value(self._frame, &c, False, self._ends)


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
