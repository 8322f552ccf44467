# The index of _freeing.pyx: large buffers, resized and freed.


cdef bytes resized(list owner, Py_ssize_t size)


cdef class Freeing:
    cdef list _buffers

    cpdef int take(self, bytes buffer) except -1
