# The index of _halves.pyx: frames of which only a part has come.


cdef class Halves:
    cdef public long long most
    cdef readonly long long bytes
    cdef object _owners                   # who has a part, oldest first -> None

    cdef bint grow(self, owner, Py_ssize_t filled, Py_ssize_t more) except -1
    cdef int end(self, owner, Py_ssize_t size) except -1
    cdef object beyond(self)
