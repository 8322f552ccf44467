# cython: boundscheck=True, wraparound=False, language_level=3
"""Writing and syncing many files in one step, without the interpreter's lock.

A round of the writer thread is one call: it would otherwise wait for the lock, beside a busy event
loop, after each of its system calls. Raises nothing about the disk: every outcome is returned.
"""

import typing

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <fcntl.h>
    #include <pthread.h>
    #include <stdint.h>
    #include <sys/stat.h>
    #include <sys/uio.h>
    #include <unistd.h>

    #define KC_PARTS_AT_ONCE 1024  /* IOV_MAX of Linux and macOS */
    #define KC_MOST_THREADS 16

    typedef struct {
        int descriptor, write_error, sync_error;
        int64_t size, found_size, links, count;
        struct iovec *parts;
    } kc_file;

    typedef struct { kc_file *files; int64_t count, first, step; } kc_share;

    static void kc_set_part(struct iovec *part, const void *data, size_t size) {
        part->iov_base = (void *)data;
        part->iov_len = size;
    }

    static int kc_fdatasync(int descriptor) {
    #if defined(__APPLE__)
        return fcntl(descriptor, F_FULLFSYNC);
    #else
        return fdatasync(descriptor);
    #endif
    }

    static void kc_write(kc_file *file) {
        struct stat status;
        struct iovec *part = file->parts;
        int64_t left = file->count;
        off_t at = file->size;
        if (fstat(file->descriptor, &status) < 0) { file->write_error = errno; return; }
        file->found_size = status.st_size;
        file->links = status.st_nlink;
        if (status.st_size != at || status.st_nlink == 0) { file->write_error = ESTALE; return; }
        while (left > 0) {
            ssize_t done = pwritev(file->descriptor, part,
                                   (int)(left < KC_PARTS_AT_ONCE ? left : KC_PARTS_AT_ONCE), at);
            if (done < 0 && errno == EINTR) continue;
            if (done <= 0) { file->write_error = done < 0 ? errno : EIO; return; }
            at += done;
            while (left > 0 && (size_t)done >= part->iov_len) {
                done -= part->iov_len;
                part++;
                left--;
            }
            if (done > 0) {
                part->iov_base = (char *)part->iov_base + done;
                part->iov_len -= done;
            }
        }
    }

    /* 0 if the file under that name is the one that is known by device and inode. */
    static int kc_lost(const char *name, uint64_t device, uint64_t inode) {
        struct stat status;
        if (stat(name, &status) < 0) return errno;
        return status.st_dev == (dev_t)device && status.st_ino == (ino_t)inode ? 0 : ESTALE;
    }

    static void *kc_sync_share(void *argument) {
        kc_share *share = argument;
        for (int64_t n = share->first; n < share->count; n += share->step) {
            kc_file *file = &share->files[n];
            if (!file->write_error && kc_fdatasync(file->descriptor) < 0) file->sync_error = errno;
        }
        return NULL;
    }

    /* File systems let concurrent syncs share a journal commit, and share more of it when the pages
       are on their way before the first sync. */
    static void kc_sync(kc_file *files, int64_t count, int threads) {
        kc_share shares[KC_MOST_THREADS];
        pthread_t started[KC_MOST_THREADS];
        int running[KC_MOST_THREADS];
        if (threads > KC_MOST_THREADS) threads = KC_MOST_THREADS;
        if (threads > count) threads = (int)count;
    #if defined(__linux__)
        for (int64_t n = 0; count > 1 && n < count; n++)
            (void)sync_file_range(files[n].descriptor, 0, 0, SYNC_FILE_RANGE_WRITE);
    #endif
        for (int n = threads - 1; n >= 0; n--) {
            shares[n] = (kc_share){files, count, n, threads};
            running[n] = n > 0 && !pthread_create(&started[n], NULL, kc_sync_share, &shares[n]);
            if (!running[n]) kc_sync_share(&shares[n]);
        }
        for (int n = 1; n < threads; n++)
            if (running[n]) pthread_join(started[n], NULL);
    }
    """
    struct iovec:
        pass
    ctypedef struct kc_file:
        int descriptor
        int write_error
        int sync_error
        int64_t size
        int64_t found_size
        int64_t links
        int64_t count
        iovec* parts
    void kc_set_part(iovec* part, const void* data, size_t size) noexcept nogil
    void kc_write(kc_file* file) noexcept nogil
    void kc_sync(kc_file* files, int64_t count, int threads) noexcept nogil
    int kc_lost(const char* name, uint64_t device, uint64_t inode) noexcept nogil

cdef enum:
    SYNC_THREADS = 8


class Outcome(typing.NamedTuple):
    """What a file failed with: errno values, 0 for none. `write_error` is ESTALE if the file did
    not end where it should (`found_size`, `links` say what was found): nothing was written then.
    `lock_error` is the same of all files: ESTALE if another file than the lock's has its name."""

    found_size: int
    links: int
    write_error: int
    sync_error: int
    lock_error: int = 0


def write_files(list files not None, bint sync, tuple lock = None):
    """Writes to each of `files`, (descriptor, size, batches), behind its `size` bytes; then, with
    `sync`, makes all of them durable, at the same time. A file that fails does not keep the others
    back. `lock` is a name with the device and inode that it should have: it is looked at last.

    Answers an `Outcome` for each file that failed, and None for the others.
    """
    cdef Py_ssize_t count = len(files), parts = 0, part = 0, n
    cdef kc_file* tasks = NULL
    cdef iovec* all_parts = NULL
    cdef list batches
    cdef bytes batch
    cdef bytes lock_name = None
    cdef const char* name = NULL
    cdef uint64_t device = 0, inode = 0
    cdef int lock_error = 0
    if lock is not None:
        lock_name, device, inode = lock
        name = lock_name
    for _, _, batches in files:
        parts += len(batches)
    try:
        tasks = <kc_file*>calloc(count + 1, sizeof(kc_file))
        all_parts = <iovec*>calloc(parts + 1, sizeof(iovec))
        if tasks == NULL or all_parts == NULL:
            raise MemoryError
        for n in range(count):
            tasks[n].descriptor, tasks[n].size, batches = files[n]
            tasks[n].parts = all_parts + part
            for batch in batches:
                kc_set_part(all_parts + part, PyBytes_AS_STRING(batch), PyBytes_GET_SIZE(batch))
                part += 1
            tasks[n].count = (all_parts + part) - tasks[n].parts
        with nogil:
            for n in range(count):
                kc_write(tasks + n)
            if sync:
                kc_sync(tasks, count, SYNC_THREADS)
            if name != NULL:
                lock_error = kc_lost(name, device, inode)
        return [
            None if tasks[n].write_error == 0 and tasks[n].sync_error == 0 and lock_error == 0
            else Outcome(
                tasks[n].found_size,
                tasks[n].links,
                tasks[n].write_error,
                tasks[n].sync_error,
                lock_error,
            )
            for n in range(count)
        ]
    finally:
        free(tasks)
        free(all_parts)


def sync_files(list descriptors not None):
    """Makes durable what was written to these files, at the same time; they stay open. Answers an
    errno value for each, 0 for none."""
    cdef Py_ssize_t count = len(descriptors), n
    cdef kc_file* tasks = <kc_file*>calloc(count + 1, sizeof(kc_file))
    if tasks == NULL:
        raise MemoryError
    try:
        for n in range(count):
            tasks[n].descriptor = descriptors[n]
        with nogil:
            kc_sync(tasks, count, SYNC_THREADS)
        return [tasks[n].sync_error for n in range(count)]
    finally:
        free(tasks)
