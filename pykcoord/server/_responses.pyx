# cython: language_level=3, boundscheck=False, wraparound=False
"""Responses of the node-level APIs: from plain values to bytes.

`Layout.write` appends one structure, with all that is in it, to a bytearray. A caller may write
arrays of structures element by element (`Layout.parts`), so that a long answer is made in slices.
Tagged fields are never written: no answer here has one.
"""

from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t, uint8_t

from datetime import timedelta

# Kinds of fields, and their sizes in bytes; 0: the field begins with its length.
BOOL, INT8, INT16, INT32, INT64, MILLISECONDS, UUID_, STRING, BYTES, STRUCT = range(10)
cdef int[10] _SIZES
_SIZES[:] = [1, 1, 2, 4, 8, 4, 16, 0, 0, 0]
cdef int _MILLISECONDS = MILLISECONDS, _UUID = UUID_
cdef int _STRING = STRING, _BYTES = BYTES, _STRUCT = STRUCT
# No string of the protocol may be longer. Error messages are cut there.
cdef Py_ssize_t _LONGEST_STRING = 32_767
cdef object _MILLISECOND = timedelta(milliseconds=1)
cdef bytes _NO_UUID = bytes(16)


cdef int _signed(bytearray out, int64_t value, int size) except -1:
    """A big-endian number of 1, 2, 4 or 8 bytes."""
    cdef uint8_t[8] data
    cdef int index
    for index in range(size):
        data[size - 1 - index] = <uint8_t>((<uint64_t>value) >> (8 * index))
    out += (<char*>data)[:size]
    return 0


cdef int _uvarint(bytearray out, uint64_t value) except -1:
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return 0


cdef class Item:
    """One field of a layout: `kind` is one of the constants of this module. `default` is written
    where no value is given, unless the field `is_required`."""

    cdef readonly str name
    cdef readonly int kind
    cdef readonly bint is_array
    cdef readonly Layout layout
    cdef readonly object default
    cdef readonly bint is_required
    cdef bint is_nullable
    cdef bint is_compact

    def __init__(self, str name not None, int kind, *, bint is_array, bint is_nullable,
                 bint is_compact, Layout layout, default, bint is_required):
        self.name = name
        self.kind = kind
        self.is_array = is_array
        self.is_nullable = is_nullable
        self.is_compact = is_compact
        self.layout = layout
        self.default = default
        self.is_required = is_required

    @property
    def is_in_parts(self):
        """Whether it is an array of structures."""
        return self.is_array and self.kind == _STRUCT

    def value(self, fields):
        """Its value in a mapping of names to values."""
        return self.value_in(fields)

    def write(self, bytearray out not None, fields):
        """Write its value of `fields`."""
        self.put(out, self.value_in(fields))

    def write_count(self, bytearray out not None, Py_ssize_t count):
        """Write the number of elements that follow; -1 for null."""
        self.put_count(out, count)

    def insert_count(self, bytearray out not None, Py_ssize_t at, Py_ssize_t count):
        """Insert that number at `at`, in front of elements that were written already."""
        cdef bytearray written = bytearray()
        self.put_count(written, count)
        out[at:at] = written

    cdef object value_in(self, fields):
        if self.name in fields:
            return fields[self.name]
        if self.is_required:
            raise KeyError(self.name)
        return self.default

    cdef int put_count(self, bytearray out, Py_ssize_t count) except -1:
        if self.is_compact:
            return _uvarint(out, count + 1)
        return _signed(out, count, 4)

    cdef int put(self, bytearray out, value) except -1:
        if not self.is_array:
            return self.put_value(out, value)
        if value is None:
            return self.put_count(out, -1)
        self.put_count(out, len(value))
        for element in value:
            self.put_value(out, element)
        return 0

    cdef int put_value(self, bytearray out, value) except -1:
        if self.kind == _STRING or self.kind == _BYTES:
            return self.put_bytes(out, value)
        if self.kind == _STRUCT:
            if self.is_nullable and not self.is_array:
                _signed(out, -1 if value is None else 1, 1)
                if value is None:
                    return 0
            return self.layout.put(out, value)
        if self.kind == _UUID:
            out += _NO_UUID if value is None else value.bytes
            return 0
        if self.kind == _MILLISECONDS:
            value = value // _MILLISECOND
        elif value is None:  # a time that is not known
            value = -1
        return _signed(out, value, _SIZES[self.kind])

    cdef int put_bytes(self, bytearray out, value) except -1:
        cdef bytes data
        cdef Py_ssize_t length
        if value is None:
            if not self.is_nullable:
                raise TypeError(f"{self.name} cannot be null")
            length = -1
        else:
            data = value.encode() if self.kind == _STRING else value
            length = PyBytes_GET_SIZE(data)
            if self.kind == _STRING and length > _LONGEST_STRING:
                data = _cut(data, self.name)
                length = PyBytes_GET_SIZE(data)
        if self.is_compact:
            _uvarint(out, length + 1)
        else:
            _signed(out, length, 2 if self.kind == _STRING else 4)
        if length > 0:
            out += data
        return 0


cdef bytes _cut(bytes data, str name):
    if name != "error_message":
        raise ValueError(f"{name} of {len(data)} bytes; at most {_LONGEST_STRING} can be sent")
    return data[:_LONGEST_STRING].decode(errors="ignore").encode()


cdef class Layout:
    """What a structure consists of. `parts` are its fields in their order."""

    cdef readonly list parts
    cdef readonly bint is_flexible

    def __init__(self, list parts not None, bint is_flexible):
        self.parts = parts
        self.is_flexible = is_flexible

    @property
    def has_arrays(self):
        """Whether an array of structures is among its fields."""
        return any(item.is_in_parts for item in self.parts)

    def write(self, bytearray out not None, fields):
        """Write a structure of `fields`, a mapping of names to values. Names that this version
        does not have are left out. Raises KeyError for a missing field; OverflowError, TypeError
        and ValueError for values that cannot be written."""
        self.put(out, fields)

    def write_end(self, bytearray out not None):
        """Write what follows the fields: the number of tagged fields, which is 0."""
        self.put_end(out)

    cdef int put(self, bytearray out, fields) except -1:
        cdef Item item
        for item in self.parts:
            item.put(out, item.value_in(fields))
        return self.put_end(out)

    cdef int put_end(self, bytearray out) except -1:
        if self.is_flexible:
            out.append(0)
        return 0
