# The index of _sending.pyx: many replies handed to the kernel in one step.

from libc.stdint cimport int64_t


cdef int64_t send_once(int descriptor, const char* data, int64_t size) noexcept nogil


cdef class Replies:
    cdef void* _replies  # kc_reply
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room

    cdef int begin(self) except -1
    cdef int add(self, int descriptor, bytes reply) except -1
    cdef int send(self) except -1
    cdef Py_ssize_t sent(self, Py_ssize_t index)

cdef int descriptor_of(transport) except -2
