# cython: language_level=3, wraparound=False
"""The frames of all connections of which only a part has come, in the order in which they began."""

from collections import OrderedDict

# Less of one frame does not count: to close its connection would give nothing back.
cdef Py_ssize_t LITTLE_BYTES = 4096


cdef class Halves:
    """How many bytes came of them, and who has waited longest for the rest. `most` of them may be
    held, and those of one frame, however long it is."""

    def __init__(self, long long most):
        self.most = most
        self._owners = OrderedDict()

    cdef bint grow(self, owner, Py_ssize_t filled, Py_ssize_t more) except -1:
        """More came of the frame of an owner, which makes `filled`; whether it is too much in
        all."""
        if owner in self._owners:
            self.bytes += more
        elif filled >= LITTLE_BYTES:
            self._owners[owner] = None
            self.bytes += filled
        return self.bytes > self.most

    cdef int end(self, owner, Py_ssize_t size) except -1:
        """Its frame is whole, or it is gone: so much had come."""
        if owner in self._owners:
            del self._owners[owner]
            self.bytes -= size
        return 0

    cdef object beyond(self):
        """Who has waited longest, where too much is held; None: there is no other, or room."""
        if self.bytes <= self.most or len(self._owners) < 2:
            return None
        return next(iter(self._owners))

    def __len__(self):
        return len(self._owners)
