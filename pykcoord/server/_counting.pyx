# cython: language_level=3, wraparound=False
"""What was answered, counted by API and by how long it took."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memset

cdef int API_KEYS = 128
cdef int BUCKETS = 16
# Upper bounds in seconds; what takes longer falls into the last, unbounded bucket.
LATENCY_BOUNDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
    30.0,
)
cdef double[15] _bounds
for _index, _bound in enumerate(LATENCY_BOUNDS):
    _bounds[_index] = _bound


cdef inline int _api_key(bytes frame) noexcept:
    """The API key as an index of the counters; 127 for what Kafka has not."""
    cdef const uint8_t* byte
    cdef int key
    if PyBytes_GET_SIZE(frame) < 2:
        return API_KEYS - 1
    byte = <const uint8_t*>PyBytes_AS_STRING(frame)
    key = (<int>byte[0] << 8) | <int>byte[1]
    return key if key < API_KEYS else API_KEYS - 1


cdef class Counts:
    """Of one server."""

    def __cinit__(self):
        memset(self._requests, 0, sizeof(self._requests))
        memset(self._seconds, 0, sizeof(self._seconds))
        memset(self._latency, 0, sizeof(self._latency))

    cdef int count(self, bytes frame, double seconds) except -1:
        """The request of a frame was answered after so many seconds."""
        cdef int key = _api_key(frame)
        cdef int bucket = 0
        while bucket < BUCKETS - 1 and seconds > _bounds[bucket]:
            bucket += 1
        self._requests[key] += 1
        self._seconds[key] += seconds
        self._latency[key][bucket] += 1
        return 0

    def requests(self):
        """By API key: (count, seconds in all, counts by latency bucket)."""
        cdef int key, bucket
        return {
            key: (self._requests[key], self._seconds[key],
                  [self._latency[key][bucket] for bucket in range(BUCKETS)])
            for key in range(API_KEYS) if self._requests[key]
        }
