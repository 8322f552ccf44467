# cython: language_level=3, wraparound=False
"""Large buffers: resized where they are, and taken and freed some at a time.

The kernel takes 6 ms to take 60 MiB back, and clients can have many such buffers freed at once.
"""

import asyncio

from cpython.bytearray cimport PyByteArray_Resize
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject** bytes, Py_ssize_t size) except -1
    Py_ssize_t Py_REFCNT(object of)

cdef extern from *:
    """
    #ifdef __linux__
    #include <sys/prctl.h>
    static int kc_take_small_pages(void) { return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0; }
    #else
    static int kc_take_small_pages(void) { return 0; }
    #endif
    """
    bint kc_take_small_pages() noexcept nogil

cdef Py_ssize_t AT_ONCE = 1 << 20
AT_ONCE_BYTES = AT_ONCE
# What is smaller stays with the process, for what comes next.
cdef Py_ssize_t LITTLE = 1 << 16
LITTLE_BYTES = LITTLE


def take_small_pages():
    """Have this process take no further huge pages; whether the system can do that.

    To clear 2 MiB takes 0.2 ms, and where a virtual machine first has to get them from its host
    2 to 25 ms, in which everybody waits. What the process has in huge pages stays there.
    """
    return bool(kc_take_small_pages())


cdef bytes resized(list owner, Py_ssize_t size):
    """The bytes that `owner` alone has, with another size; the beginning is kept."""
    cdef bytes buffer = owner.pop()
    cdef PyObject* moved = <PyObject*>buffer
    Py_INCREF(buffer)
    buffer = None  # it must have one owner
    _PyBytes_Resize(&moved, size)
    buffer = <bytes>moved
    Py_DECREF(buffer)
    return buffer


cdef class Freeing:
    """Frees buffers, 1 MiB in an iteration of the loop, or half of one. Not thread-safe."""

    def __init__(self):
        self._buffers = []

    @property
    def bytes_left(self):
        """What waits to be freed."""
        return sum(map(len, self._buffers))

    cpdef int take(self, buffer) except -1:
        """Free bytes or a bytearray that the caller lets go, in iterations to come; at once if it is
        small, somebody else has it then, or there is no loop."""
        if buffer is not None and len(buffer) > LITTLE:
            self.take_all([buffer])
        return 0

    cpdef int take_all(self, list buffers) except -1:
        """The same of many, which may be small; memoryviews may be among them."""
        loop = asyncio._get_running_loop()
        if loop is not None and buffers:
            if not self._buffers:
                loop.call_soon(self._free_some)
            self._buffers += buffers
        return 0

    def _free_some(self):
        cdef Py_ssize_t freed = 0
        while self._buffers and freed < AT_ONCE:
            freed += self._free_end()
        if self._buffers:
            asyncio.get_running_loop().call_soon(self._free_some)

    cdef Py_ssize_t _free_end(self) except -1:
        """Free the end of the last buffer, or all of it; how much that is."""
        buffer = self._buffers.pop()
        cdef Py_ssize_t size = len(buffer)
        if Py_REFCNT(buffer) > 1 or size <= 2 * AT_ONCE:
            return size
        if isinstance(buffer, bytes):
            owner = [buffer]
            buffer = None
            self._buffers.append(resized(owner, size - AT_ONCE))
            return AT_ONCE
        if isinstance(buffer, bytearray):  # it gives back no less than half of it
            try:
                PyByteArray_Resize(buffer, size // 2 - 1)
            except BufferError:
                return size
            self._buffers.append(buffer)
        return size
