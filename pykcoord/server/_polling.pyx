# cython: language_level=3, wraparound=False
"""Reading many sockets, a bounded number of those that are ready, in the order of a queue.

A loop (asyncio's, libuv's) reads all that is ready before anything else happens. With thousands of
clients, who ask again as soon as they are answered, that makes a turn of nearly all of them, then
one of a few, and who comes at the wrong time waits for two long ones. A `Poller` reads up to 256
sockets that are ready, and the loop goes on to their turn, to its timers, to what the log has done.
The kernel queues what became ready: no client is passed over.

It has two lanes, each a descriptor to its loop. All begin in the first, where 4 KiB of a socket are
read at a time. Who sends more, or a request that is not whole yet, goes on in the second, of which
so little is read in one go that those who send heartbeats hardly wait for it, and comes back with
the next short request that is whole.

It must never parse what it reads. It is Linux's epoll: elsewhere `IS_AVAILABLE` is False, and
asyncio's transports do the same for a connection, one at a time.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport errno
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, malloc
from posix.unistd cimport close

import os

from pykcoord.server._connection cimport Connection
from pykcoord.server._sending cimport send_once

cdef extern from *:
    """
    #include <errno.h>
    #include <stdint.h>
    #include <sys/socket.h>

    #define KC_AT_ONCE 256      /* sockets: they make a turn worth its cost, and fit into caches */
    #define KC_READ_MOST 65536  /* bytes of one socket: the rest comes when its turn comes again */
    #define KC_READ_LITTLE 4096 /* the same in the first lane: who sends more has another */

    typedef struct { int descriptor; uint32_t wanted; void *channel; } kc_socket;
    /* One that was ready: `got` bytes at `data`, 0 at its end; -1: nothing, or an `error`. */
    typedef struct {
        kc_socket *socket;
        uint32_t events;
        int error;
        int64_t got;
        char *data;
    } kc_ready;

    #ifdef __linux__
    #include <sys/epoll.h>
    enum { KC_AVAILABLE = 1, KC_IN = EPOLLIN | EPOLLRDHUP, KC_OUT = EPOLLOUT };
    enum { KC_BROKEN = EPOLLERR | EPOLLHUP, KC_ENDING = KC_BROKEN | EPOLLRDHUP };

    static int kc_create(void) { return epoll_create1(EPOLL_CLOEXEC); }

    /* Asks for one event when what is wanted can be done, also if it can already; nothing: never.
       -1 with errno: the system cannot. */
    static int kc_want(int poller, kc_socket *socket, uint32_t wanted) {
        struct epoll_event event = {.events = wanted | EPOLLET, .data.ptr = socket};
        int what = !wanted ? EPOLL_CTL_DEL : socket->wanted ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
        if (!wanted && !socket->wanted) return 0;
        socket->wanted = wanted;
        return epoll_ctl(poller, what, socket->descriptor, &event);
    }

    static int kc_poll(int poller, kc_ready *ready, int most) {
        struct epoll_event events[KC_AT_ONCE];
        int count = epoll_wait(poller, events, most, 0);
        for (int n = 0; n < count; n++)
            ready[n] = (kc_ready){events[n].data.ptr, events[n].events, 0, -1, 0};
        return count;
    }
    #else
    #include <stddef.h>
    enum { KC_AVAILABLE = 0, KC_IN = 1, KC_OUT = 2, KC_BROKEN = 4, KC_ENDING = 12 };
    static int kc_create(void) { errno = ENOSYS; return -1; }
    static int kc_want(int poller, kc_socket *socket, uint32_t wanted) { return -1; }
    static int kc_poll(int poller, kc_ready *ready, int most) { return 0; }
    #endif

    /* Read what is ready, `most` bytes of each, from the `from`-th on while there is room; how far
       it came. */
    static int kc_read(
        kc_ready *ready, int from, int count, char *room, int64_t size, int64_t most) {
        for (; from < count && size >= most; from++) {
            kc_ready *one = &ready[from];
            if (!(one->socket->wanted & KC_IN) || !(one->events & (KC_IN | KC_ENDING))) continue;
            do one->got = recv(one->socket->descriptor, room, most, MSG_DONTWAIT);
            while (one->got < 0 && errno == EINTR);
            one->error = one->got < 0 && errno != EAGAIN && errno != EWOULDBLOCK ? errno : 0;
            one->data = room;
            if (one->got <= 0) continue;
            room += one->got;
            size -= one->got;
        }
        return from;
    }
    """
    ctypedef struct kc_socket:
        int descriptor
        uint32_t wanted
        void* channel
    ctypedef struct kc_ready:
        kc_socket* socket
        uint32_t events
        int error
        int64_t got
        char* data
    int KC_AVAILABLE, KC_AT_ONCE, KC_READ_MOST, KC_READ_LITTLE
    uint32_t KC_IN, KC_OUT, KC_BROKEN, KC_ENDING
    int kc_create() noexcept nogil
    int kc_want(int poller, kc_socket* socket, uint32_t wanted) noexcept nogil
    int kc_poll(int poller, kc_ready* ready, int most) noexcept nogil
    int kc_read(
        kc_ready* ready, int begin, int count, char* room, int64_t size, int64_t most
    ) noexcept nogil

IS_AVAILABLE = bool(KC_AVAILABLE)

# What was read is handed on when there is no room for a whole read more.
cdef int64_t ROOM_BYTES = 8 * KC_READ_MOST
# Of the second lane in one go: so many bytes, of so many sockets at a time. Each page of a long frame
# is touched first then, which costs a virtual machine more than the bytes do: 256 KiB took 1.2 ms.
cdef int64_t MUCH_BYTES = 2 * KC_READ_MOST
cdef int MUCH_AT_ONCE = 2
# So many reads, however little there was: with what the system does for one it takes 8 us.
cdef int MUCH_READS = 32
# Sent in one go of a lane, of what sockets did not take before; and of one socket when it is written.
# The kernel takes megabytes at once from those who were late to read, which takes milliseconds.
cdef Py_ssize_t SENT_MOST = 2 * KC_READ_MOST
# Of what a client did not take yet: where its next request waits, and where it is served again.
cdef Py_ssize_t HIGH_WATER_BYTES = 65536
cdef Py_ssize_t LOW_WATER_BYTES = 16384


cdef class Poller:
    """Reads the sockets that are given to it, on the loop that made it. Not thread-safe.

    Raises OSError where the system has no more descriptors.
    """
    cdef object _loop
    cdef set _channels
    cdef int[2] _descriptors    # of the two lanes: who sends little, and who sends much
    cdef kc_ready* _ready
    cdef char* _room
    cdef Py_ssize_t _sendable   # in this go

    def __cinit__(self):
        self._descriptors = [-1, -1]
        self._ready = <kc_ready*>malloc(KC_AT_ONCE * sizeof(kc_ready))
        self._room = <char*>malloc(ROOM_BYTES)
        if self._ready == NULL or self._room == NULL:
            raise MemoryError()

    def __init__(self, loop not None):
        self._loop = loop
        self._channels = set()
        for lane, poll in enumerate((self._poll, self._poll_much)):
            self._descriptors[lane] = kc_create()
            if self._descriptors[lane] < 0:
                raise OSError(errno, os.strerror(errno))
            loop.add_reader(self._descriptors[lane], poll)

    def __dealloc__(self):
        for lane in range(2):
            if self._descriptors[lane] >= 0:
                close(self._descriptors[lane])
        free(self._ready)
        free(self._room)

    def add(self, socket not None, Connection connection not None):
        """Serve a connected socket, which is the poller's from now on, by `connection`.

        What `connection_made` raises ends the connection, and is raised.
        """
        cdef Channel channel = Channel.__new__(Channel)
        socket.setblocking(False)
        channel._poller = self
        channel._socket_object = socket
        channel._connection = connection
        channel._left = []
        channel._watched = kc_socket(socket.fileno(), 0, <void*>channel)
        self._channels.add(channel)
        try:
            connection.connection_made(channel)
        except BaseException:
            channel._lose(None)
            raise
        if not channel._is_closing:
            channel._want(KC_IN)

    def close(self):
        """End every connection that is left, at once, and the poller."""
        cdef Channel channel
        if self._descriptors[0] < 0:
            return
        for channel in list(self._channels):
            try:
                channel._lose(None)
                channel._end(None)
            except Exception as error:
                self._report(error)
        for lane in range(2):
            self._loop.remove_reader(self._descriptors[lane])
            close(self._descriptors[lane])
            self._descriptors[lane] = -1

    cdef int _report(self, error) except -1:
        """To the loop's handler of exceptions, which logs it."""
        self._loop.call_exception_handler(
            {"message": "a connection failed, and is closed", "exception": error})
        return 0

    def _poll(self):
        """Read a little of each that is ready."""
        cdef int count
        self._sendable = SENT_MOST
        with nogil:
            count = kc_poll(self._descriptors[0], self._ready, KC_AT_ONCE)
        self._read(count, KC_READ_LITTLE, count == KC_AT_ONCE)

    def _poll_much(self):
        """Read of those who send much, as much of all together as makes a short turn."""
        cdef int64_t got = 0
        cdef int reads = 0
        cdef int count
        self._sendable = SENT_MOST
        while got < MUCH_BYTES and reads < MUCH_READS and self._sendable > 0:
            with nogil:
                count = kc_poll(self._descriptors[1], self._ready, MUCH_AT_ONCE)
            if count <= 0:
                return
            reads += count
            got += self._read(count, KC_READ_MOST, count == MUCH_AT_ONCE)

    cdef int64_t _read(self, int count, int64_t most, bint is_full) except -1:
        """Read those that are ready, `most` bytes of each; how much that was in all."""
        cdef int begin = 0
        cdef int end, index
        cdef int64_t got = 0
        cdef Channel channel = None
        while begin < count:
            with nogil:
                end = kc_read(self._ready, begin, count, self._room, ROOM_BYTES, most)
            for index in range(begin, end):
                channel = <Channel>self._ready[index].socket.channel
                got += max(0, self._ready[index].got)
                try:
                    channel._is_ready(&self._ready[index])
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # what others sent is read already: go on
                    self._report(error)
                    channel._lose(error)
            begin = end
        if is_full and channel is not None and channel._connection is not None:
            channel._connection._hub.is_full = True
        return got


cdef class Channel:
    """A socket of a poller, to its connection: a transport as asyncio has them.

    Its descriptor stays open until the connection has learned that it is lost, which happens in a
    later iteration of the loop, or when the poller is closed.
    """
    cdef Poller _poller
    cdef object _socket_object
    cdef kc_socket _watched     # the same socket, to epoll
    cdef Connection _connection
    cdef list _left             # written, and not yet taken by the socket: as it came, not copied
    cdef Py_ssize_t _taken      # of the first of these
    cdef Py_ssize_t _left_bytes # of all, without what is taken
    cdef int _lane              # of the poller's
    cdef bint _is_pushed_back   # the connection knows that too much is left
    cdef bint _is_closing
    cdef bint _is_lost          # nothing is read or written any more

    def get_extra_info(self, str name not None):
        """The `socket` and its `peername`; None: there is no such thing."""
        if name == "socket":
            return self._socket_object
        if name == "peername":
            try:
                return self._socket_object.getpeername()
            except OSError:
                return None  # gone already
        return None

    def get_write_buffer_size(self):
        """Bytes that the socket has not taken yet."""
        return self._left_bytes

    def is_closing(self):
        """Whether nothing is read any more."""
        return self._is_closing

    def pause_reading(self):
        """Leave what comes in the socket."""
        self._want(self._watched.wanted & ~KC_IN)

    def resume_reading(self):
        """Read again what comes."""
        if not self._is_closing:
            self._want(self._watched.wanted | KC_IN)

    def write(self, data not None):
        """Send as much as the socket takes, or as one turn does, and the rest in later ones.

        `data`: bytes, a bytearray that nobody changes any more, or a memoryview of one of these.
        """
        if self._is_lost:
            return
        self._left.append(data)
        self._count_left(len(data))
        if len(self._left) == 1:
            self._send_left(SENT_MOST)
        if self._left_bytes == 0:
            return
        self._want(self._watched.wanted | KC_OUT)
        if self._left_bytes > HIGH_WATER_BYTES and not self._is_pushed_back:
            self._is_pushed_back = True
            self._connection.pause_writing()

    def close(self):
        """Read no more, send what is left, and end."""
        if self._is_closing:
            return
        self._is_closing = True
        self._want(self._watched.wanted & ~KC_IN)
        if self._left_bytes == 0:
            self._lose(None)

    def abort(self):
        """End; what is left is not sent."""
        self._lose(None)

    cdef int _want(self, uint32_t wanted) except -1:
        cdef int descriptor = self._poller._descriptors[self._lane]
        if not self._is_lost and kc_want(descriptor, &self._watched, wanted) != 0:
            error = OSError(errno, os.strerror(errno))  # the system's bound of what is watched
            self._poller._report(error)
            self._lose(error)
        return 0

    cdef int _move(self, int lane) except -1:
        """Into the other lane, where it is ready at once if anything is left to read."""
        cdef uint32_t wanted = self._watched.wanted
        self._want(0)
        self._lane = lane
        self._want(wanted)
        return 0

    cdef int _is_ready(self, kc_ready* ready) except -1:
        cdef int lane
        if self._is_lost:
            return 0
        if ready.got > 0:
            if not self._is_closing:
                self._connection.received(ready.data, ready.got)
            lane = ready.got >= KC_READ_LITTLE or _has_part(self._connection)
            if lane != self._lane:
                self._move(lane)
            elif ready.got == KC_READ_MOST or ready.events & KC_ENDING:
                self._want(self._watched.wanted)  # there is more: it is ready again
        elif ready.got == 0:
            self.close()  # nothing is left to answer to
        elif ready.error != 0:
            self._lose(OSError(ready.error, os.strerror(ready.error)))
        if ready.events & (KC_OUT | KC_BROKEN) and self._left_bytes != 0:
            self._send_on()
        return 0

    cdef int _send_on(self) except -1:
        self._poller._sendable -= self._send_left(self._poller._sendable)
        if self._is_lost:
            return 0
        if self._left_bytes == 0:
            self._want(self._watched.wanted & ~KC_OUT)
            if self._is_closing:
                self._lose(None)
        elif self._poller._sendable <= 0:
            self._want(self._watched.wanted)  # it may take more: it is ready again
        if self._is_pushed_back and self._left_bytes <= LOW_WATER_BYTES:
            self._is_pushed_back = False
            self._connection.resume_writing()
        return 0

    cdef Py_ssize_t _send_left(self, Py_ssize_t most) except -1:
        """Send what is left, up to `most` bytes, as far as the socket takes it; how much that
        was."""
        cdef Py_buffer data
        cdef Py_ssize_t sent, size
        cdef Py_ssize_t all_sent = 0
        while self._left and all_sent < most:
            PyObject_GetBuffer(self._left[0], &data, PyBUF_SIMPLE)
            size = data.len - self._taken
            sent = self._send(<const char*>data.buf + self._taken, min(size, most - all_sent))
            PyBuffer_Release(&data)
            if sent < 0:
                return all_sent
            self._count_left(-sent)
            all_sent += sent
            if sent == size:
                del self._left[0]
                self._taken = 0
                continue
            self._taken += sent
            if all_sent < most:
                break
        return all_sent

    cdef int _count_left(self, Py_ssize_t more) except -1:
        self._left_bytes += more
        self._connection._hub.unsent_bytes += more
        return 0

    cdef Py_ssize_t _send(self, const char* data, Py_ssize_t size) except -2:
        """How much the socket took; -1: it is lost."""
        cdef Py_ssize_t sent = send_once(self._watched.descriptor, data, size)
        if sent >= 0:
            return sent
        self._lose(OSError(errno, os.strerror(errno)))
        return -1

    cdef int _lose(self, error) except -1:
        """Nothing is read or written any more; the connection learns it when the loop goes on."""
        if self._is_lost:
            return 0
        self._is_closing = True
        kc_want(self._poller._descriptors[self._lane], &self._watched, 0)
        self._is_lost = True
        self._connection._hub.freeing.take_all(self._left)
        self._left = []
        self._count_left(-self._left_bytes)
        self._poller._loop.call_soon(self._end, error)
        return 0

    def _end(self, error):
        if self not in self._poller._channels:
            return  # the poller was closed
        self._poller._channels.discard(self)
        try:
            self._connection.connection_lost(error)
        finally:
            self._connection = None  # it has this channel, too: neither would be freed at once
            self._socket_object.close()


cdef inline bint _has_part(Connection of) noexcept:
    """Whether it waits for the rest of a request."""
    if of is None:
        return False
    return of._long is not None or (of._waiting is not None and of._ticket == 0)
