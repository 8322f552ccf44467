# cython: language_level=3, boundscheck=False, wraparound=False
"""What a request has named already: told apart exactly, kept in three blocks of memory.

A set of a hundred thousand objects takes some 25 ms to be freed, all at once, when the request that
filled it ends or its client goes away. A `Seen` takes none.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject_Hash
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy

import os

cdef enum: FEWEST_SLOTS = 64
cdef uint32_t MOST = 0x7FFFFFFF
# Unknown to clients, who choose names and numbers.
cdef uint64_t _SECRET = <uint64_t>int.from_bytes(os.urandom(8), "big")

cdef struct Entry:
    uint64_t hashed
    int64_t number
    Py_ssize_t at       # of its text, in `_texts`
    Py_ssize_t size     # -1: it has none

cdef struct Text:
    const char* data
    Py_ssize_t size


cdef Text _text_of(name) except *:
    cdef Text text
    text.data = NULL
    text.size = -1
    if isinstance(name, str):
        text.data = PyUnicode_AsUTF8AndSize(name, &text.size)
    elif isinstance(name, bytes):
        text.data = PyBytes_AS_STRING(name)
        text.size = PyBytes_GET_SIZE(name)
    elif name is not None:
        raise TypeError(f"a name is str, bytes or None, not {type(name).__name__}")
    return text


cdef uint64_t _hash(name, int64_t number) except? 0:
    cdef uint64_t value = _SECRET ^ <uint64_t>PyObject_Hash(name)
    value ^= <uint64_t>number * <uint64_t>0x9E3779B97F4A7C15
    value ^= value >> 33
    value *= <uint64_t>0xFF51AFD7ED558CCD
    value ^= value >> 33
    value *= <uint64_t>0xC4CEB9FE1A85EC53
    return value ^ (value >> 33)


cdef class Seen:
    """Pairs of a name (str, bytes or None; str and bytes of the same UTF-8 are one name) and a
    number of 64 bits.

    `expected`: room for so many is taken at once, as addresses: a table of a hundred thousand that
    grows takes some milliseconds for it.
    """

    cdef Entry* _entries
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room
    cdef uint32_t* _slots       # place of an entry + 1; 0: free
    cdef Py_ssize_t _mask
    cdef char* _texts
    cdef Py_ssize_t _text_size
    cdef Py_ssize_t _text_room

    def __init__(self, Py_ssize_t expected=0):
        if self._entries != NULL or expected <= FEWEST_SLOTS // 2:
            return
        if expected >= MOST // 8:
            raise MemoryError()
        self._entries = <Entry*>malloc(expected * sizeof(Entry))
        if self._entries == NULL:
            raise MemoryError()
        self._room = expected
        self._grow(expected)

    def __dealloc__(self):
        free(self._entries)
        free(self._slots)
        free(self._texts)

    def __len__(self):
        return self._count

    def add(self, name, int64_t number=0):
        """Whether it is new: then it is seen from now on."""
        cdef Py_ssize_t before = self._count
        self._place(name, number, True)
        return self._count > before

    def has(self, name, int64_t number=0):
        """Whether it was added."""
        return self._place(name, number, False) >= 0

    def place(self, name, int64_t number=0):
        """Which one it is, from 0 on in the order in which they came; it is added if it is new."""
        return self._place(name, number, True)

    cdef Py_ssize_t _place(self, name, int64_t number, bint may_add) except -2:
        """-1: it is not there, and was not added."""
        cdef Text text = _text_of(name)
        cdef uint64_t hashed = _hash(name, number)
        cdef Py_ssize_t slot
        cdef Entry* entry
        if 2 * self._count >= self._mask:
            if not may_add and self._count == 0:
                return -1
            self._grow(self._count)
        slot = <Py_ssize_t>(hashed & <uint64_t>self._mask)
        while self._slots[slot] != 0:
            entry = &self._entries[self._slots[slot] - 1]
            if (entry.hashed == hashed and entry.number == number and entry.size == text.size
                    and (text.size <= 0
                         or memcmp(self._texts + entry.at, text.data, text.size) == 0)):
                return self._slots[slot] - 1
            slot = (slot + 1) & self._mask
        if not may_add:
            return -1
        self._append(hashed, number, text)
        self._slots[slot] = <uint32_t>self._count
        return self._count - 1

    cdef int _append(self, uint64_t hashed, int64_t number, Text text) except -1:
        cdef void* more
        cdef Py_ssize_t room
        if self._count == self._room:
            room = max(16, 2 * self._room)
            more = realloc(self._entries, room * sizeof(Entry)) if room < MOST else NULL
            if more == NULL:
                raise MemoryError()
            self._entries, self._room = <Entry*>more, room
        if text.size > self._text_room - self._text_size:
            room = 2 * (self._text_size + text.size)
            more = realloc(self._texts, room)
            if more == NULL:
                raise MemoryError()
            self._texts, self._text_room = <char*>more, room
        self._entries[self._count] = Entry(hashed, number, self._text_size, text.size)
        self._count += 1
        if text.size > 0:
            memcpy(self._texts + self._text_size, text.data, text.size)
            self._text_size += text.size
        return 0

    cdef int _grow(self, Py_ssize_t expected) except -1:
        cdef Py_ssize_t count = max(<Py_ssize_t>FEWEST_SLOTS, 4 * (self._mask + 1))
        cdef Py_ssize_t index, slot
        cdef uint32_t* slots
        while 2 * expected >= count - 1:
            count *= 4
        slots = <uint32_t*>calloc(count, sizeof(uint32_t))
        if slots == NULL:
            raise MemoryError()
        for index in range(self._count):
            slot = <Py_ssize_t>(self._entries[index].hashed & <uint64_t>(count - 1))
            while slots[slot] != 0:
                slot = (slot + 1) & (count - 1)
            slots[slot] = <uint32_t>(index + 1)
        free(self._slots)
        self._slots, self._mask = slots, count - 1
        return 0
