# cython: language_level=3
"""sync_file_range(2), which Python's os module lacks: starts the writing of dirty pages.

A hint and no more: it makes nothing durable, and what goes wrong is reported by the fdatasync that
must follow.
"""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <fcntl.h>
    #include <stdint.h>

    static void kc_start_writeback(int descriptor, int64_t position, int64_t size) {
    #if defined(__linux__)
        (void)sync_file_range(descriptor, position, size, SYNC_FILE_RANGE_WRITE);
    #else
        (void)descriptor; (void)position; (void)size;
    #endif
    }
    """
    void kc_start_writeback(int descriptor, int64_t position, int64_t size) noexcept nogil


def start_writeback(int descriptor, int64_t position, int64_t size):
    """Starts writing `size` bytes from `position` on to the disk, and does not wait for them."""
    with nogil:
        kc_start_writeback(descriptor, position, size)
