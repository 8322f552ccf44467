# cython: language_level=3, wraparound=False
"""Handing replies to the kernel: many of them without the interpreter's lock, on two threads.

Most of what a request costs a server is the kernel's work for its reply, done in `send` by its
caller. Where a turn has many replies, a second thread takes a share of them, so that the last of
its clients waits half as long; where it does not come to it, the caller sends all. It must never
close, wait for, or remember a socket: the caller sees to it that all of them stay open until then.
Where no core is to spare for a second thread, it would only take time from the first.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

cdef extern from *:
    """
    #include <errno.h>
    #include <pthread.h>
    #include <sched.h>
    #include <signal.h>
    #include <stdint.h>
    #include <sys/socket.h>
    #include <unistd.h>

    #ifndef MSG_NOSIGNAL  /* macOS; Python ignores SIGPIPE */
    #define MSG_NOSIGNAL 0
    #endif
    #define KC_TAKEN_AT_ONCE 16

    typedef struct { int descriptor; const char *data; int64_t size, sent; } kc_reply;
    typedef struct { kc_reply *replies; int64_t count, next; } kc_work;

    /* The second thread, one for the process: started when it is first of use. */
    static pthread_mutex_t kc_lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t kc_begun = PTHREAD_COND_INITIALIZER, kc_ended = PTHREAD_COND_INITIALIZER;
    static kc_work *kc_offered;   /* to it; NULL: nothing, or it has it */
    static kc_work *kc_shared;    /* what it works on */
    static int kc_helps;          /* it was started in this process */
    static int kc_alone;          /* it is not to be used: there is no core for it */
    static long kc_processes = 1; /* that need a core each */

    /* How much the socket took; -1 with errno where it is broken. */
    static int64_t kc_send(int descriptor, const char *data, int64_t size) {
        ssize_t sent;
        do sent = send(descriptor, data, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
        return sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : sent;
    }

    static void kc_send_some(kc_work *work) {
        int64_t first;
        while ((first = __atomic_fetch_add(&work->next, KC_TAKEN_AT_ONCE, __ATOMIC_RELAXED))
               < work->count) {
            int64_t end = first + KC_TAKEN_AT_ONCE;
            for (int64_t n = first; n < end && n < work->count; n++) {
                kc_reply *reply = &work->replies[n];
                int64_t sent = kc_send(reply->descriptor, reply->data, reply->size);
                reply->sent = sent < 0 ? 0 : sent;
            }
        }
    }

    static void *kc_help(void *unused) {
        (void)unused;
        pthread_mutex_lock(&kc_lock);
        for (;;) {
            while (!kc_offered) pthread_cond_wait(&kc_begun, &kc_lock);
            kc_shared = kc_offered;
            kc_offered = NULL;
            pthread_mutex_unlock(&kc_lock);
            kc_send_some(kc_shared);
            pthread_mutex_lock(&kc_lock);
            kc_shared = NULL;
            pthread_cond_broadcast(&kc_ended);
        }
        return NULL;
    }

    /* A forked child has no such thread, and perhaps a lock that is never given back. */
    static void kc_forget_help(void) {
        pthread_mutex_init(&kc_lock, NULL);
        pthread_cond_init(&kc_begun, NULL);
        pthread_cond_init(&kc_ended, NULL);
        kc_offered = kc_shared = NULL;
        kc_helps = 0;
    }

    static long kc_usable_cores(void) {
    #ifdef __linux__
        cpu_set_t usable;
        if (sched_getaffinity(0, sizeof usable, &usable) == 0) return CPU_COUNT(&usable);
    #endif
        return sysconf(_SC_NPROCESSORS_ONLN);
    }

    /* With the lock. Signals are for Python's main thread. */
    static int kc_start_help(void) {
        static int watched;
        pthread_t thread;
        sigset_t all, before;
        if ((kc_alone = kc_usable_cores() <= kc_processes)) return 0;
        if (!watched && pthread_atfork(NULL, NULL, kc_forget_help)) return 0;
        watched = 1;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int failed = pthread_create(&thread, NULL, kc_help, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (failed) return 0;
        pthread_detach(thread);
        kc_helps = 1;
        return 1;
    }

    static void kc_send_alone(kc_reply *replies, int64_t count) {
        kc_work work = {replies, count, 0};
        kc_send_some(&work);
    }

    static void kc_send_shared(kc_reply *replies, int64_t count) {
        kc_work work = {replies, count, 0};
        int offered = 0;
        pthread_mutex_lock(&kc_lock);
        if (!kc_offered && !kc_shared && (kc_helps || kc_start_help())) {
            kc_offered = &work;
            offered = 1;
            pthread_cond_signal(&kc_begun);
        }
        pthread_mutex_unlock(&kc_lock);
        kc_send_some(&work);
        if (!offered) return;
        pthread_mutex_lock(&kc_lock);
        if (kc_offered == &work) kc_offered = NULL;
        while (kc_shared == &work) pthread_cond_wait(&kc_ended, &kc_lock);
        pthread_mutex_unlock(&kc_lock);
    }
    """
    ctypedef struct kc_reply:
        int descriptor
        const char* data
        int64_t size
        int64_t sent
    int kc_alone
    long kc_processes
    int64_t kc_send(int descriptor, const char* data, int64_t size) noexcept nogil
    void kc_send_alone(kc_reply* replies, int64_t count) noexcept nogil
    void kc_send_shared(kc_reply* replies, int64_t count) noexcept nogil

# For fewer, giving the interpreter's lock away costs more than another thread gains by it.
cdef Py_ssize_t UNLOCKED = 64
# Fewer are sent sooner than another thread is woken. Below what is polled together (KC_AT_ONCE,
# 256), or the other thread would never be used.
cdef Py_ssize_t SHARED = 192


def share_cores(int processes):
    """Say how many processes need a core each, this one among them. To be said before it serves."""
    global kc_processes
    kc_processes = processes


cdef int64_t send_once(int descriptor, const char* data, int64_t size) noexcept nogil:
    """How much the socket took; -1 with errno where it is broken."""
    return kc_send(descriptor, data, size)


cdef int descriptor_of(transport) except -2:
    """Of the transport's socket, which stays open until `connection_lost` has returned; -1 where
    bytes do not leave as they are given."""
    socket = transport.get_extra_info("socket")
    if socket is None or transport.get_extra_info("sslcontext") is not None:
        return -1
    return socket.fileno()


cdef class Replies:
    """Replies to be sent, each with the descriptor of an open socket. They must outlive `send`."""

    def __dealloc__(self):
        free(self._replies)

    cdef int begin(self) except -1:
        """Forget what was added before."""
        self._count = 0
        return 0

    cdef int add(self, int descriptor, bytes reply) except -1:
        cdef Py_ssize_t room
        cdef void* grown
        if self._count == self._room:
            room = max(64, 2 * self._room)
            grown = realloc(self._replies, room * sizeof(kc_reply))
            if grown == NULL:
                raise MemoryError()
            self._replies = grown
            self._room = room
        (<kc_reply*>self._replies)[self._count] = kc_reply(
            descriptor, PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply), 0)
        self._count += 1
        return 0

    cdef int send(self) except -1:
        """Send what was added, as far as the kernel takes it: `sent` says how far."""
        cdef Py_ssize_t count = self._count
        if count < UNLOCKED:
            kc_send_alone(<kc_reply*>self._replies, count)
            return 0
        with nogil:
            if count < SHARED or kc_alone:
                kc_send_alone(<kc_reply*>self._replies, count)
            else:
                kc_send_shared(<kc_reply*>self._replies, count)
        return 0

    cdef Py_ssize_t sent(self, Py_ssize_t index):
        """How much the kernel took of the reply that was added as the `index`-th; -1: all."""
        cdef kc_reply* reply = &(<kc_reply*>self._replies)[index]
        return -1 if reply.sent == reply.size else reply.sent
