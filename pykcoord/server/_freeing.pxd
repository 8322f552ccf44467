# The index of _freeing.pyx: large buffers, resized and freed.


cdef bytes resized(list owner, Py_ssize_t size)


cdef class Freeing:
    cdef list _buffers

    cpdef int take(self, buffer) except -1
    cpdef int take_all(self, list buffers) except -1
    cdef Py_ssize_t _free_end(self) except -1
