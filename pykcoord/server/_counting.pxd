# The index of _counting.pyx: what was answered, by API and latency.


cdef class Counts:
    cdef long long _requests[128]
    cdef double _seconds[128]
    cdef long long _latency[128][16]

    cdef int count(self, bytes frame, double seconds) except -1
