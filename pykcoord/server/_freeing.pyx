# cython: language_level=3, wraparound=False
"""Large buffers: resized where they are, and taken and freed some at a time.

The kernel takes 6 ms to take 60 MiB back, and clients can have many such buffers freed at once.
"""

import asyncio

from cpython.bytes cimport PyBytes_GET_SIZE
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
    """Frees bytes, 1 MiB in an iteration of the loop. Not thread-safe."""

    def __init__(self):
        self._buffers = []

    @property
    def bytes_left(self):
        """What waits to be freed."""
        return sum(map(len, self._buffers))

    cpdef int take(self, bytes buffer) except -1:
        """Free a buffer that the caller lets go, in iterations to come; at once if it is small,
        somebody else has it then, or there is no loop."""
        if buffer is None or PyBytes_GET_SIZE(buffer) <= AT_ONCE:
            return 0
        loop = asyncio._get_running_loop()
        if loop is not None:
            if not self._buffers:
                loop.call_soon(self._free_some)
            self._buffers.append(buffer)
        return 0

    def _free_some(self):
        cdef bytes buffer = self._buffers.pop()
        cdef Py_ssize_t size = PyBytes_GET_SIZE(buffer) - AT_ONCE
        if size > AT_ONCE and Py_REFCNT(buffer) == 1:
            owner = [buffer]
            buffer = None
            self._buffers.append(resized(owner, size))
        if self._buffers:
            asyncio.get_running_loop().call_soon(self._free_some)
