from libc.stdint cimport int64_t, uint8_t


cdef struct Cursor:
    const uint8_t* data
    Py_ssize_t at
    Py_ssize_t end
    Py_ssize_t elements
    Py_ssize_t most_elements


cdef int _need(Cursor* c, Py_ssize_t size) except -1
cdef int64_t _signed(Cursor* c, int size) except? -1
cdef Py_ssize_t _uvarint(Cursor* c) except -1
cdef int _count_elements(Cursor* c, Py_ssize_t count) except -1
