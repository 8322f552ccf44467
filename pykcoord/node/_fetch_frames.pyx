# cython: language_level=3, boundscheck=False, wraparound=False
"""Fetch of followers as bytes, versions 15 to 18: requests read, and answers written.

Followers ask hundreds of times a second for partitions by the dozen. Believes no count and no
length before the bytes are there.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from pykcoord.server._requests cimport Cursor, _count_elements, _need, _signed, _uvarint

from pykcoord.server._requests import MalformedError

# Of all arrays of a request together.
cdef Py_ssize_t MOST_ELEMENTS = 250_000
# What stands in a frame before the client id: API key, version, correlation id.
cdef Py_ssize_t FIXED_BYTES = 8
# Of a partition in an answer beside its records: fields, lengths, and tagged fields at most.
cdef Py_ssize_t PARTITION_BYTES = 96
cdef Py_ssize_t TOPIC_BYTES = 32
cdef int REPLICA_STATE_TAG = 1

Partition = tuple


cdef int _skip(Cursor* r, Py_ssize_t size) except -1:
    _need(r, size)
    r.at += size
    return 0


cdef int _skip_tags(Cursor* r) except -1:
    cdef Py_ssize_t count = _uvarint(r)
    while count > 0:
        _uvarint(r)
        _skip(r, _uvarint(r))
        count -= 1
    return 0


cdef Py_ssize_t _elements(Cursor* r) except -1:
    cdef Py_ssize_t count = _uvarint(r)
    if count == 0:
        raise MalformedError("an array is null")
    _count_elements(r, count - 1)
    return count - 1


cdef bytes _taken(Cursor* r, Py_ssize_t size):
    _need(r, size)
    r.at += size
    return PyBytes_FromStringAndSize(<const char*>r.data + r.at - size, size)


cdef class Asked:
    """A request. `named` has (topic id, partition, current leader epoch, fetch offset, last fetched
    epoch, most bytes) of each partition in it, `forgotten` (topic id, partition). `replica` is -1
    in that of a consumer."""

    cdef readonly int32_t replica, wait_ms, min_bytes, max_bytes, session_id, session_epoch
    cdef readonly int64_t replica_epoch
    cdef readonly list named, forgotten

    def __init__(self, bytes frame not None):
        """Raises MalformedError."""
        cdef Cursor r
        cdef Py_ssize_t topics, partitions, tags, tag, size, at
        cdef bytes topic
        cdef int32_t number, epoch, last_epoch, most
        cdef int64_t offset
        r.data, r.end = <const uint8_t*>PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame)
        r.at = r.elements = 0
        r.most_elements = MOST_ELEMENTS
        self.replica, self.replica_epoch = -1, -1
        self.named, self.forgotten = [], []
        _skip(&r, FIXED_BYTES)
        _skip(&r, max(0, _signed(&r, 2)))  # the client id
        _skip_tags(&r)
        self.wait_ms = _signed(&r, 4)
        self.min_bytes = _signed(&r, 4)
        self.max_bytes = _signed(&r, 4)
        _skip(&r, 1)  # the isolation level: followers have none
        self.session_id = _signed(&r, 4)
        self.session_epoch = _signed(&r, 4)
        topics = _elements(&r)
        while topics > 0:
            topic = _taken(&r, 16)
            partitions = _elements(&r)
            while partitions > 0:
                number = <int32_t>_signed(&r, 4)
                epoch = <int32_t>_signed(&r, 4)
                offset = _signed(&r, 8)
                last_epoch = <int32_t>_signed(&r, 4)
                _skip(&r, 8)  # where the follower's log begins
                most = <int32_t>_signed(&r, 4)
                _skip_tags(&r)
                self.named.append((topic, number, epoch, offset, last_epoch, most))
                partitions -= 1
            _skip_tags(&r)
            topics -= 1
        topics = _elements(&r)
        while topics > 0:
            topic = _taken(&r, 16)
            partitions = _elements(&r)
            while partitions > 0:
                self.forgotten.append((topic, _signed(&r, 4)))
                partitions -= 1
            _skip_tags(&r)
            topics -= 1
        _skip(&r, max(0, _uvarint(&r) - 1))  # the rack
        tags = _uvarint(&r)
        while tags > 0:
            tag = _uvarint(&r)
            size = _uvarint(&r)
            _need(&r, size)
            at = r.at
            if tag == REPLICA_STATE_TAG:
                self.replica = _signed(&r, 4)
                self.replica_epoch = _signed(&r, 8)
                _skip_tags(&r)
                if r.at - at != size:
                    raise MalformedError("the replica's state has another length than is claimed")
            else:
                r.at += size
            tags -= 1
        if r.at != r.end:
            raise MalformedError(f"{r.end - r.at} bytes are left over")


cdef inline uint8_t* _put(uint8_t* to, uint64_t value, int size) noexcept:
    cdef int index
    for index in range(size):
        to[index] = <uint8_t>(value >> (8 * (size - 1 - index)))
    return to + size


cdef inline uint8_t* _put_uvarint(uint8_t* to, uint64_t value) noexcept:
    while value >= 0x80:
        to[0] = <uint8_t>(value | 0x80)
        to += 1
        value >>= 7
    to[0] = <uint8_t>value
    return to + 1


cdef inline uint8_t* _put_pair(
    uint8_t* to, int tag, int32_t first, int64_t second, int size
) noexcept:
    """A tagged structure of an INT32 and a number of `size` bytes."""
    to = _put_uvarint(_put(to, tag, 1), 4 + size + 1)
    to = _put(_put(to, first, 4), second, size)
    return _put(to, 0, 1)


def answer(bytes correlation_id not None, int error, int32_t session_id, list topics not None):
    """The frame of an answer, with its length in front. `topics`: (topic id, partitions), and of
    each partition (number, error code, high watermark, last stable offset, log start offset,
    records, diverging, leader): `diverging` is (epoch, end offset) or None, `leader` (id, epoch)
    or None. Raises ValueError for ids that have not their length."""
    cdef Py_ssize_t size = 4 + 4 + 1 + 4 + 2 + 4 + 5 + 1
    cdef bytes topic, records, buffer
    cdef list partitions
    cdef tuple one
    cdef uint8_t* start
    cdef uint8_t* to
    cdef int tags
    if len(correlation_id) != 4:
        raise ValueError("a correlation id has 4 bytes")
    for topic, partitions in topics:
        if topic is None or len(topic) != 16:
            raise ValueError("a topic id has 16 bytes")
        size += TOPIC_BYTES
        for one in partitions:
            records = one[5]
            size += PARTITION_BYTES + len(records)
    buffer = PyBytes_FromStringAndSize(NULL, size)
    start = <uint8_t*>PyBytes_AS_STRING(buffer)
    to = start + 4
    memcpy(to, PyBytes_AS_STRING(correlation_id), 4)
    to = _put(to + 4, 0, 1)  # no tagged fields in the header
    to = _put(to, 0, 4)  # no throttling
    to = _put(to, error, 2)
    to = _put(to, session_id, 4)
    to = _put_uvarint(to, len(topics) + 1)
    for topic, partitions in topics:
        memcpy(to, PyBytes_AS_STRING(topic), 16)
        to = _put_uvarint(to + 16, len(partitions) + 1)
        for one in partitions:
            number, code, high_watermark, stable, log_start, records, diverging, leader = one
            to = _put(to, <int32_t>number, 4)
            to = _put(to, <int32_t>code, 2)
            to = _put(to, <int64_t>high_watermark, 8)
            to = _put(to, <int64_t>stable, 8)
            to = _put(to, <int64_t>log_start, 8)
            to = _put_uvarint(to, 0)  # followers are not told what was aborted
            to = _put(to, <uint64_t>-1, 4)  # no other replica is preferred
            to = _put_uvarint(to, PyBytes_GET_SIZE(records) + 1)
            memcpy(to, PyBytes_AS_STRING(records), PyBytes_GET_SIZE(records))
            to += PyBytes_GET_SIZE(records)
            tags = (diverging is not None) + (leader is not None)
            to = _put_uvarint(to, tags)
            if diverging is not None:
                to = _put_pair(to, 0, diverging[0], diverging[1], 8)
            if leader is not None:
                to = _put_pair(to, 1, leader[0], leader[1], 4)
        to = _put(to, 0, 1)
    to = _put(to, 0, 1)
    _put(start, <uint64_t>(to - start - 4), 4)
    return buffer[: to - start]
