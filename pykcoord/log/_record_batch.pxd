# Index of _record_batch.pyx: the RecordBatch v2 header (spec: log-format 4), framing and scanning.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

cdef enum:
    HEADER_BYTES = 61            # up to and including recordsCount
    LENGTH_PREFIX_BYTES = 12     # baseOffset and batchLength: batchLength counts what follows them
    CRC_FROM = 21                # the CRC covers everything from the attributes on

cdef enum StopCode:
    STOP_END
    STOP_SHORT
    STOP_LENGTH
    STOP_MAGIC
    STOP_CRC
    STOP_OFFSET
    STOP_COUNT
    STOP_EPOCH                   # internal: the leader epoch rises here; the caller notes it and goes on

cdef struct Progress:
    Py_ssize_t position          # everything before it is sound
    int64_t next_offset          # smallest base offset that may follow
    int64_t max_timestamp
    int64_t batches
    int64_t records
    int64_t compressed
    int64_t of_producers         # batches that have a producer id
    int32_t leader_epoch
    Py_ssize_t needed            # bytes that the batch at `position` needs (STOP_SHORT)

cdef uint32_t crc32c_of(const uint8_t* data, size_t size, uint32_t initial) noexcept nogil
cdef int32_t load32(const uint8_t* at) noexcept nogil
cdef int64_t load64(const uint8_t* at) noexcept nogil
cdef void store32(uint8_t* at, int32_t value) noexcept nogil
cdef void store64(uint8_t* at, int64_t value) noexcept nogil
cdef int check(const uint8_t* data, Py_ssize_t size, Progress* progress,
               int64_t segment_base) noexcept nogil
cdef int advance(const uint8_t* data, Py_ssize_t size, Progress* progress,
                 int64_t segment_base) noexcept nogil
cdef Py_ssize_t find(const uint8_t* data, Py_ssize_t size, Py_ssize_t position,
                     int64_t minimum_offset) noexcept nogil
