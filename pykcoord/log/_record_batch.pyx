# cython: boundscheck=True, wraparound=False, language_level=3
"""RecordBatch v2 (Kafka's DefaultRecordBatch): framing, header, CRC-32C, scanning at memory speed.

Knows one buffer at a time and no file. Must never read a byte that it has not checked to be there:
what it is given comes from a disk that may be damaged.
"""

import enum
import typing

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    static uint32_t kc_crc_table[8][256];

    static void kc_crc_fill_table(void) {
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t crc = n;
            for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
            kc_crc_table[0][n] = crc;
        }
        for (uint32_t n = 0; n < 256; n++)
            for (int k = 1; k < 8; k++)
                kc_crc_table[k][n] =
                    kc_crc_table[0][kc_crc_table[k - 1][n] & 255] ^ (kc_crc_table[k - 1][n] >> 8);
    }

    /* Slicing by 8; bytes are combined one by one, so the byte order of the machine does not matter. */
    static uint32_t kc_crc_by_table(uint32_t crc, const uint8_t *p, size_t n) {
        for (; n >= 8; n -= 8, p += 8)
            crc = kc_crc_table[7][(crc ^ p[0]) & 255] ^ kc_crc_table[6][((crc >> 8) ^ p[1]) & 255]
                ^ kc_crc_table[5][((crc >> 16) ^ p[2]) & 255] ^ kc_crc_table[4][(crc >> 24) ^ p[3]]
                ^ kc_crc_table[3][p[4]] ^ kc_crc_table[2][p[5]]
                ^ kc_crc_table[1][p[6]] ^ kc_crc_table[0][p[7]];
        for (; n > 0; n--, p++) crc = kc_crc_table[0][(crc ^ *p) & 255] ^ (crc >> 8);
        return crc;
    }

    #if defined(__GNUC__) && defined(__x86_64__)
    #include <nmmintrin.h>
    __attribute__((target("sse4.2")))
    static uint32_t kc_crc_by_cpu(uint32_t crc, const uint8_t *p, size_t n) {
        uint64_t wide = crc, word;
        for (; n >= 8; n -= 8, p += 8) { memcpy(&word, p, 8); wide = _mm_crc32_u64(wide, word); }
        crc = (uint32_t)wide;
        for (; n > 0; n--, p++) crc = _mm_crc32_u8(crc, *p);
        return crc;
    }
    static int kc_crc_cpu_has_it(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("sse4.2");
    }
    #elif defined(__GNUC__) && defined(__aarch64__) && defined(__linux__)
    #include <sys/auxv.h>
    __attribute__((target("+crc")))
    static uint32_t kc_crc_by_cpu(uint32_t crc, const uint8_t *p, size_t n) {
        uint64_t word;
        for (; n >= 8; n -= 8, p += 8) {
            memcpy(&word, p, 8);
            __asm__("crc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
        }
        for (; n > 0; n--, p++) __asm__("crc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)*p));
        return crc;
    }
    static int kc_crc_cpu_has_it(void) { return (getauxval(AT_HWCAP) >> 7) & 1; }
    #else
    #define kc_crc_by_cpu kc_crc_by_table
    static int kc_crc_cpu_has_it(void) { return 0; }
    #endif

    static uint32_t (*kc_crc)(uint32_t, const uint8_t *, size_t) = kc_crc_by_table;

    static int kc_crc_choose(int by_cpu) {
        if (kc_crc_table[0][1] == 0) kc_crc_fill_table();
        by_cpu = by_cpu && kc_crc_cpu_has_it();
        kc_crc = by_cpu ? kc_crc_by_cpu : kc_crc_by_table;
        return by_cpu;
    }
    static uint32_t kc_crc32c(uint32_t initial, const uint8_t *p, size_t n) {
        return ~kc_crc(~initial, p, n);
    }
    """
    int kc_crc_choose(int by_cpu) noexcept nogil
    uint32_t kc_crc32c(uint32_t initial, const uint8_t* p, size_t n) noexcept nogil


class Stop(enum.IntEnum):
    """Why a scan stopped. END: the buffer ends there; SHORT: the batch goes on beyond the buffer."""

    END = STOP_END
    SHORT = STOP_SHORT
    LENGTH = STOP_LENGTH
    MAGIC = STOP_MAGIC
    CRC = STOP_CRC
    OFFSET = STOP_OFFSET
    COUNT = STOP_COUNT


class Header(typing.NamedTuple):
    """The header of one batch, in Kafka's words. `size` is that of the whole batch in bytes."""

    base_offset: int
    size: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


class Scan(typing.NamedTuple):
    """What a scan found: see `scan`."""

    stop: Stop
    end: int
    next_offset: int
    batches: int
    records: int
    compressed: int
    of_producers: int
    max_timestamp: int
    needed: int
    epochs: list[tuple[int, int]]


def choose_crc32c(bint by_cpu):
    """Takes the CPU's instruction or the table (tests); says whether the instruction is in use."""
    return bool(kc_crc_choose(by_cpu))


def crc32c(const uint8_t[::1] data not None, uint32_t initial=0):
    """CRC-32C (Castagnoli) of `data`, continuing from `initial`."""
    if data.shape[0] == 0:
        return initial
    return crc32c_of(&data[0], data.shape[0], initial)


def frame(
    const uint8_t[::1] records not None, int32_t record_count, int64_t base_offset,
    int64_t base_timestamp, int64_t max_timestamp, int32_t leader_epoch,
    int64_t producer_id=-1, int16_t producer_epoch=-1, bint is_marker=False,
):
    """A whole batch around a records area, as Kafka's coordinator writes it (log-format sections 3.4
    and 5): CREATE_TIME, uncompressed, base sequence 0. With a producer id: of its transaction, or the
    marker that ends it, whose base sequence is -1."""
    cdef Py_ssize_t area = records.shape[0]
    if record_count < 1 or area < 1 or area > INT32_MAX - HEADER_BYTES or base_offset < 0:
        raise AssertionError(f"not a batch: {record_count} records, {area} bytes at {base_offset}")
    cdef bytes batch = PyBytes_FromStringAndSize(NULL, HEADER_BYTES + area)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(batch)
    store64(at, base_offset)
    store32(at + 8, <int32_t>(HEADER_BYTES + area - LENGTH_PREFIX_BYTES))
    store32(at + 12, leader_epoch)
    at[16] = 2
    at[21] = 0
    at[22] = 0 if producer_id < 0 else 0x30 if is_marker else 0x10
    store32(at + 23, record_count - 1)
    store64(at + 27, base_timestamp)
    store64(at + 35, max_timestamp)
    store64(at + 43, producer_id)
    at[51] = <uint8_t>((producer_epoch >> 8) & 0xFF)
    at[52] = <uint8_t>(producer_epoch & 0xFF)
    store32(at + 53, -1 if is_marker else 0)
    store32(at + 57, record_count)
    memcpy(at + HEADER_BYTES, &records[0], area)
    seal(at, HEADER_BYTES + area)
    return batch


def reframe(const uint8_t[::1] batch not None, const uint8_t[::1] records not None):
    """The batch with its compressed records area replaced by `records`; all else stays as it is."""
    cdef Py_ssize_t area = records.shape[0]
    if batch.shape[0] < HEADER_BYTES or area > INT32_MAX - HEADER_BYTES:
        raise ValueError(f"not a batch: {batch.shape[0]} bytes, records area of {area}")
    cdef bytes whole = PyBytes_FromStringAndSize(NULL, HEADER_BYTES + area)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(whole)
    memcpy(at, &batch[0], HEADER_BYTES)
    if area:
        memcpy(at + HEADER_BYTES, &records[0], area)
    store32(at + 8, <int32_t>(HEADER_BYTES + area - LENGTH_PREFIX_BYTES))
    at[22] &= 0xF8
    seal(at, HEADER_BYTES + area)
    return whole


def header(const uint8_t[::1] buffer not None, Py_ssize_t position):
    """The header of the batch at `position`. ValueError if the buffer does not hold 61 bytes there."""
    if position < 0 or buffer.shape[0] - position < HEADER_BYTES:
        raise ValueError(f"no batch header at byte {position} of {buffer.shape[0]}")
    cdef const uint8_t* at = &buffer[position]
    return Header(
        load64(at), <int64_t>load32(at + 8) + LENGTH_PREFIX_BYTES, load32(at + 12), at[16],
        <uint32_t>load32(at + 17), (<int>at[21] << 8) | at[22], load32(at + 23), load64(at + 27),
        load64(at + 35), load64(at + 43), <int16_t>((<int>at[51] << 8) | at[52]),
        load32(at + 53), load32(at + 57),
    )


def transactional(const uint8_t[::1] buffer not None):
    """(position, header) of each whole batch of a transaction, markers too. The batches are sound."""
    cdef Py_ssize_t size = buffer.shape[0]
    cdef Py_ssize_t position = 0, length
    found = []
    while size - position >= HEADER_BYTES:
        length = <Py_ssize_t>load32(&buffer[position] + 8) + LENGTH_PREFIX_BYTES
        if length < HEADER_BYTES or size - position < length:
            break
        if buffer[position + 22] & 0x10:
            found.append((position, header(buffer, position)))
        position += length
    return found


def scan(
    const uint8_t[::1] buffer not None, Py_ssize_t position, int64_t expected_offset,
    int64_t segment_base=0, int32_t leader_epoch=-1,
):
    """Checks batch after batch from `position` on: length, magic, CRC-32C, offsets, counts.

    `expected_offset` is the smallest base offset allowed next (larger ones are the gaps that
    compaction leaves), `segment_base` that of the file: an offset lies at most 2^31-1 above it.
    Result: `end`, where the sound part ends and why (`stop`); `needed`, for SHORT, the bytes that
    the batch there needs (61 if even that is unknown); `of_producers`, the batches that have a
    producer id; `epochs`: (leader epoch, first offset) wherever the epoch rises above
    `leader_epoch`.
    """
    cdef Py_ssize_t size = buffer.shape[0]
    cdef const uint8_t* data = NULL
    cdef Progress progress
    cdef int code = STOP_END
    if position < 0 or position > size:
        raise ValueError(f"position {position} is outside of a buffer of {size} bytes")
    if size:
        data = &buffer[0]
    progress.position = position
    progress.next_offset = expected_offset
    progress.max_timestamp = -1
    progress.batches = progress.records = progress.compressed = progress.of_producers = 0
    progress.leader_epoch = leader_epoch
    progress.needed = 0
    epochs = []
    while size:
        with nogil:
            code = advance(data, size, &progress, segment_base)
        if code != STOP_EPOCH:
            break
        progress.leader_epoch = load32(data + progress.position + 12)
        epochs.append((progress.leader_epoch, load64(data + progress.position)))
    return Scan(
        Stop(code), progress.position, progress.next_offset, progress.batches, progress.records,
        progress.compressed, progress.of_producers, progress.max_timestamp, progress.needed, epochs,
    )


def find_sound(const uint8_t[::1] buffer not None, Py_ssize_t position, int64_t minimum_offset):
    """The first position at or after `position` where a whole sound batch stands whose base offset
    is at least `minimum_offset`; -1 if there is none."""
    cdef Py_ssize_t found
    if position < 0 or buffer.shape[0] - position < HEADER_BYTES:
        return -1
    with nogil:
        found = find(&buffer[0], buffer.shape[0], position, minimum_offset)
    return found


def next_compressed(const uint8_t[::1] buffer not None, Py_ssize_t position):
    """The position of the first compressed batch from `position` on, or the buffer's length.
    The buffer holds whole, checked batches."""
    cdef Py_ssize_t size = buffer.shape[0]
    while size - position >= HEADER_BYTES and not buffer[position + 22] & 7:
        position += LENGTH_PREFIX_BYTES + load32(&buffer[position + 8])
    return min(position, size)


cdef inline uint32_t crc32c_of(const uint8_t* data, size_t size, uint32_t initial) noexcept nogil:
    return kc_crc32c(initial, data, size)


cdef inline int32_t load32(const uint8_t* at) noexcept nogil:
    return <int32_t>((<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16)
                     | (<uint32_t>at[2] << 8) | <uint32_t>at[3])


cdef inline int64_t load64(const uint8_t* at) noexcept nogil:
    return (<int64_t>load32(at) << 32) | <uint32_t>load32(at + 4)


cdef inline void store32(uint8_t* at, int32_t value) noexcept nogil:
    cdef uint32_t bits = <uint32_t>value
    at[0] = <uint8_t>(bits >> 24)
    at[1] = <uint8_t>(bits >> 16)
    at[2] = <uint8_t>(bits >> 8)
    at[3] = <uint8_t>bits


cdef inline void store64(uint8_t* at, int64_t value) noexcept nogil:
    store32(at, <int32_t>(value >> 32))
    store32(at + 4, <int32_t><uint32_t>value)


cdef void seal(uint8_t* batch, Py_ssize_t size) noexcept nogil:
    store32(batch + 17, <int32_t>crc32c_of(batch + CRC_FROM, size - CRC_FROM, 0))


cdef int advance(const uint8_t* data, Py_ssize_t size, Progress* progress,
                 int64_t segment_base) noexcept nogil:
    cdef const uint8_t* at
    cdef int code
    while True:
        code = check(data, size, progress, segment_base)
        if code != STOP_END or progress.position == size:
            return code
        at = data + progress.position
        if load32(at + 12) > progress.leader_epoch:
            return STOP_EPOCH
        progress.next_offset = load64(at) + load32(at + 23) + 1
        progress.max_timestamp = max(progress.max_timestamp, load64(at + 35))
        progress.batches += 1
        progress.records += load32(at + 57)
        progress.compressed += (at[22] & 7) != 0
        progress.of_producers += load64(at + 43) >= 0
        progress.position += LENGTH_PREFIX_BYTES + load32(at + 8)


# Is the batch at progress.position sound? STOP_END: yes, or there are no more bytes.
cdef int check(const uint8_t* data, Py_ssize_t size, Progress* progress,
               int64_t segment_base) noexcept nogil:
    cdef const uint8_t* at = data + progress.position
    cdef Py_ssize_t left = size - progress.position
    cdef int64_t base_offset, last_offset
    cdef int32_t length, delta, count
    if left == 0:
        return STOP_END
    progress.needed = HEADER_BYTES
    if left < LENGTH_PREFIX_BYTES:
        return STOP_SHORT
    length = load32(at + 8)
    if length < 14:                     # Kafka's smallest message of any magic
        return STOP_LENGTH
    if left > 16 and at[16] != 2:
        return STOP_MAGIC
    if length < HEADER_BYTES - LENGTH_PREFIX_BYTES:
        return STOP_LENGTH
    if left - LENGTH_PREFIX_BYTES < length:
        progress.needed = <Py_ssize_t>length + LENGTH_PREFIX_BYTES
        return STOP_SHORT
    if <uint32_t>load32(at + 17) != crc32c_of(at + CRC_FROM, length + LENGTH_PREFIX_BYTES - CRC_FROM, 0):
        return STOP_CRC
    base_offset = load64(at)
    delta = load32(at + 23)
    count = load32(at + 57)
    if delta < 0 or count < 0 or count > <int64_t>delta + 1:
        return STOP_COUNT
    if base_offset < progress.next_offset or base_offset > INT64_MAX - 1 - delta:
        return STOP_OFFSET
    last_offset = base_offset + delta
    if base_offset < segment_base or last_offset - segment_base > INT32_MAX:
        return STOP_OFFSET
    return STOP_END


cdef Py_ssize_t find(const uint8_t* data, Py_ssize_t size, Py_ssize_t position,
                     int64_t minimum_offset) noexcept nogil:
    cdef Progress probe
    cdef int64_t base_offset
    while size - position >= HEADER_BYTES:
        # The magic, the unused half of the attributes and the offset's range sieve out nearly all
        # that is not a batch, before a CRC is computed.
        base_offset = load64(data + position)
        if (
            data[position + 16] == 2 and data[position + 21] == 0
            and minimum_offset <= base_offset and base_offset - minimum_offset <= INT32_MAX
        ):
            probe.position = position
            probe.next_offset = minimum_offset
            if check(data, size, &probe, minimum_offset) == STOP_END:
                return position
        position += 1
    return -1


kc_crc_choose(True)
