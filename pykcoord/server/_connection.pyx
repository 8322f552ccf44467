# cython: language_level=3, wraparound=False
"""Connections: framing, one request in flight on each, back-pressure, limits.

A frame is taken only when the one before it is answered (Kafka's SocketServer mutes a channel),
so responses leave in request order. All frames of one loop iteration go to the handler's turn
together. This module must never parse a request beyond its API key, block, or read a clock.
"""

from cpython.bytearray cimport (
    PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy

from pykcoord.server._counting cimport Counts
from pykcoord.server._freeing cimport Freeing, resized
from pykcoord.server._halves cimport Halves
from pykcoord.server._sending cimport Replies, descriptor_of
from pykcoord.server.frame_sizes import unfit_size

# Beyond this, pipelined frames wait in the client's socket; the other where those of all take much.
cdef Py_ssize_t READ_AHEAD_BYTES = 65536, LITTLE_AHEAD_BYTES = 1024
# A longer frame is put together where it need not be copied again.
cdef Py_ssize_t LONG_BYTES = 4096

cdef inline int32_t _int32(const char* data) noexcept nogil:
    cdef const uint8_t* byte = <const uint8_t*>data
    return <int32_t>((<unsigned int>byte[0] << 24) | (<unsigned int>byte[1] << 16)
                     | (<unsigned int>byte[2] << 8) | <unsigned int>byte[3])


cdef class Hub:
    """What the connections of one listener share; the runtime's transport.

    `handler` has `wake()` (frames wait for the next turn), `foreign(connection, ticket, frame)`
    (an API that the core does not own), `abandoned(ticket)` (its client is gone) and
    `connected(session)` and `refused(session, reason)` (one line of log each). `seconds` is a
    clock for latencies.
    Limits: `max_frame_bytes` is socket.request.max.bytes; `max_connections`,
    `max_connections_per_ip` and its `overrides` (ip -> number) close what exceeds them; so do
    `longest_frames` (API key -> name, bytes), once the key has come. Parts of frames take
    `max_half_bytes` in all: who waits longest for the rest is closed, but for the last one. Beyond
    `max_ahead_bytes` of pipelined frames little is read ahead.
    """

    def __init__(self, handler, seconds, *, Py_ssize_t max_frame_bytes,
                 Py_ssize_t max_connections, Py_ssize_t max_connections_per_ip,
                 dict max_connections_by_ip, dict longest_frames=None,
                 long long max_half_bytes=512 << 20, long long max_ahead_bytes=256 << 20):
        self.in_flight = {}
        self.connections = set()
        self.connections_by_ip = {}
        self._pending = []
        self._long_pending, self._long_taken = [], []
        self._replies = Replies()
        self.freeing = Freeing()
        self.halves = Halves(max_half_bytes)
        self.most_ahead_bytes = max_ahead_bytes
        self.counts = Counts()
        self._handler = handler
        self._seconds = seconds
        self._max_frame_bytes = max_frame_bytes
        self._max_connections = max_connections
        self._max_connections_per_ip = max_connections_per_ip
        self._max_connections_by_ip = max_connections_by_ip
        self._longest_frames = longest_frames if longest_frames is not None else {}

    def take(self):
        """The frames since the last turn: (ticket, session, frame without its length)."""
        cdef list frames = self._pending
        self._pending = []
        self._let_go()
        self.is_behind = self.is_full
        self.is_full = False
        return frames

    cdef int _let_go(self) except -1:
        """Of long frames that had their turn, what is in flight needs the API key alone."""
        cdef Connection connection
        for ticket, connection in self._long_taken:
            if connection._ticket == ticket:
                self.freeing.take(connection._frame)
                connection._frame = connection._frame[:2]
        self._long_taken, self._long_pending = self._long_pending, []
        return 0

    def deliver_parts(self, list parts not None):
        """Write parts of long replies (ticket, bytes), whose ends come by `deliver`."""
        cdef Connection connection
        cdef bytes part
        for ticket, part in parts:
            connection = self.in_flight.get(ticket)
            if connection is not None and part is not None and not connection._closed:
                self.sent_bytes_total += PyBytes_GET_SIZE(part)
                connection._hand_over(part, 0)

    def deliver(self, list replies not None):
        """Write replies (ticket, with its 4-byte length); a client that has gone gets nothing.

        All leave in one step, past their transports, but where one has something left to send.
        What fails for one is raised when those before it have left.
        """
        cdef Connection connection
        cdef list direct = []
        cdef bytes reply
        cdef double now
        if not replies:
            return
        now = self._seconds()
        self._replies.begin()
        try:
            for ticket, reply in replies:
                if reply is None:
                    raise TypeError("a reply is bytes")
                connection = self.in_flight.pop(ticket, None)
                if connection is None:
                    continue
                self.counts.count(connection._frame, now - connection._taken_at)
                if connection._may_send():
                    self._replies.add(connection._descriptor, reply)
                    direct.append((connection, reply))
                    connection._answered(PyBytes_GET_SIZE(reply))
                else:
                    connection._reply(reply)
        finally:
            self._send_direct(direct)

    cdef int _send_direct(self, list direct) except -1:
        """Send what was added to the replies, one for each of these connections."""
        cdef Connection connection
        cdef bytes reply
        cdef Py_ssize_t index, sent
        self._replies.send()
        for index in range(len(direct)):
            connection, reply = direct[index]
            sent = self._replies.sent(index)
            if sent >= 0:
                connection._hand_over(reply, sent)
            connection._go_on()
        return 0

    def answer(self, ticket, reply not None):
        """Write one reply (bytes, or a bytearray that nobody changes any more), its 4-byte length
        included; a client that has gone gets nothing."""
        cdef Connection connection = self.in_flight.pop(ticket, None)
        if connection is not None:
            self.counts.count(connection._frame, self._seconds() - connection._taken_at)
            connection._reply(reply)

    def foreign(self, list tickets not None):
        """Hand the requests of these tickets to the handler."""
        cdef Connection connection
        for ticket in tickets:
            connection = self.in_flight.get(ticket)
            if connection is not None:
                self._handler.foreign(connection, ticket, connection._frame)

    def refuse(self, ticket, str reason not None):
        """Close the connection of a ticket whose frame cannot be served."""
        cdef Connection connection = self.in_flight.get(ticket)
        if connection is not None:
            self._refuse(connection, reason)

    @property
    def in_flight_bytes(self):
        """Of the frames of requests that are not answered."""
        cdef Connection connection
        cdef Py_ssize_t size = 0
        for connection in self.in_flight.values():
            size += PyBytes_GET_SIZE(connection._frame)
        return size

    def drain(self):
        """Take no further frames; what is in flight may still be answered."""
        self.draining = True

    def close_all(self):
        """Close every connection; replies that are already written are still sent."""
        cdef Connection connection
        for connection in list(self.connections):
            connection._close()

    def abort_all(self):
        """End every connection at once; what is not yet sent is lost."""
        cdef Connection connection
        for connection in list(self.connections):
            connection._transport.abort()

    def close_idle(self, double now, double max_idle_seconds):
        """Close what received nothing for so long and has no request in flight. What does not
        read either is cut off: its transport would wait for ever to send what is left."""
        cdef Connection connection
        cdef int closed = 0
        for connection in list(self.connections):
            if connection._active or connection._ticket:
                connection._active = False
                connection._idle_since = now
            elif now - connection._idle_since >= max_idle_seconds:
                closed += not connection._closed
                if connection._closed or not connection._writable:
                    connection._transport.abort()
                connection._close()
        return closed

    cdef bint _admit(self, Connection connection) except -1:
        cdef Py_ssize_t from_ip = self.connections_by_ip.get(connection.client_ip, 0)
        cdef Py_ssize_t limit = self._max_connections_by_ip.get(
            connection.client_ip, self._max_connections_per_ip)
        if self.draining:
            return False
        if len(self.connections) >= self._max_connections:
            self.refused_total += 1
            self._handler.refused(
                connection.session, f"max.connections={self._max_connections} reached")
            return False
        if from_ip >= limit:
            self.refused_total += 1
            self._handler.refused(
                connection.session, f"max.connections.per.ip={limit} reached")
            return False
        self.accepted_total += 1
        self.connections.add(connection)
        self.connections_by_ip[connection.client_ip] = from_ip + 1
        self._handler.connected(connection.session)
        return True

    cdef int _enqueue(self, Connection connection, bytes frame) except -1:
        if not self._pending:
            self._pending_since = self._seconds()
            self._handler.wake()
        self._last_ticket += 1
        ticket = self._last_ticket
        connection._ticket = ticket
        connection._frame = frame
        connection._taken_at = self._pending_since
        self.in_flight[ticket] = connection
        self._pending.append((ticket, connection.session, frame))
        if PyBytes_GET_SIZE(frame) > READ_AHEAD_BYTES:
            self._long_pending.append((ticket, connection))
        return 0

    cdef int _make_room(self) except -1:
        """Close those who wait longest for the rest of a frame, while parts take too much."""
        cdef Connection connection
        while (connection := self.halves.beyond()) is not None:
            self._refuse(connection, f"{connection._filled} of {connection._long_size} bytes wait "
                         f"longest for the rest; queued.max.request.bytes={self.halves.most} reached")
        return 0

    cdef int _refuse(self, Connection connection, str reason) except -1:
        self.refused_total += 1
        self._handler.refused(connection.session, reason)
        connection._close()
        return 0


cdef class Connection:
    """One client's connection: an asyncio protocol.

    `peer_of(peername)` gives the ip of a peer and the session that it begins with.
    """

    def __init__(self, Hub hub not None, peer_of):
        self._hub = hub
        self.memo = peer_of  # replaced once the peer is known
        self.client_ip = ""
        self._descriptor = -1
        self._writable = True
        self._reading = True
        self._active = True

    def connection_made(self, transport):
        self._transport = transport
        self._write = transport.write
        self._descriptor = descriptor_of(transport)
        self.client_ip, self.session = self.memo(transport.get_extra_info("peername"))
        self.memo = None
        if not self._hub._admit(self):
            self._closed = True
            transport.close()

    def data_received(self, bytes data not None):
        self.received(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    cdef int received(self, const char* start, Py_ssize_t length) except -1:
        """What the client sent; it need not outlive this call."""
        cdef Py_ssize_t taken = 0
        if self._closed:
            return 0
        self._active = True
        self._hub.received_bytes_total += length
        if self._long is not None:
            taken = self._fill(start, length)
            start, length, taken = start + taken, length - taken, 0
            if length == 0:
                return 0
        if self._waiting is None and self._may_take():
            taken = self._take(start, length)
            if taken < 0 or taken == length:
                return 0
            self._keep(start + taken, length - taken)
            return self._pause_beyond_bound()
        self._keep(start, length)
        return self._take_next()

    def eof_received(self):
        return False  # close: nothing is left to answer to

    def connection_lost(self, error):
        cdef Hub hub = self._hub
        self._closed = True
        if self in hub.connections:
            hub.connections.discard(self)
            count = hub.connections_by_ip[self.client_ip] - 1
            if count:
                hub.connections_by_ip[self.client_ip] = count
            else:
                del hub.connections_by_ip[self.client_ip]
        self._abandon()
        self._forget()
        self._write = None
        self._descriptor = -1

    def pause_writing(self):
        self._writable = False

    def resume_writing(self):
        self._writable = True
        if not self._closed:
            self._take_next()

    cdef int _abandon(self) except -1:
        cdef long long ticket = self._ticket
        if ticket:
            self._ticket = 0
            self._hub.freeing.take(self._frame)
            self._frame = None
            self._hub.in_flight.pop(ticket, None)
            self._hub._handler.abandoned(ticket)
        return 0

    cdef int _forget(self) except -1:
        """What was received and not taken."""
        self._drop_waiting()
        self._hub.halves.end(self, self._filled)  # also where there was no memory for more of it
        self._hub.freeing.take(self._long)
        self._long = None
        return 0

    cdef int _drop_waiting(self) except -1:
        if self._waiting is not None:
            self._hub.ahead_bytes -= PyByteArray_GET_SIZE(self._waiting)
            self._waiting = None
            self._start = 0
        return 0

    cdef bint _may_take(self) noexcept:
        return self._ticket == 0 and self._writable and not self._hub.draining

    cdef Py_ssize_t _take(self, const char* data, Py_ssize_t length) except -2:
        """Take the frame at `data`: its bytes, 0 if it is not whole yet, -1 if refused."""
        cdef Py_ssize_t size
        if length < 4:
            return 0
        size = _int32(data)
        if size <= 0 or size > self._hub._max_frame_bytes:
            self._hub._refuse(self, unfit_size(size, self._hub._max_frame_bytes))
            return -1
        if length >= 6 and size > READ_AHEAD_BYTES and self._is_refused(data, size):
            return -1
        if length - 4 < size:
            return self._begin_long(data, length, size)
        self._hub._enqueue(self, PyBytes_FromStringAndSize(data + 4, size))
        return 4 + size

    cdef bint _is_refused(self, const char* data, Py_ssize_t size) except -1:
        """Whether the frame is longer than its API may have them."""
        cdef const uint8_t* key = <const uint8_t*>data + 4
        bound = self._hub._longest_frames.get((<int>key[0] << 8) | <int>key[1])
        if bound is None or size <= bound[1]:
            return False
        self._hub._refuse(self, f"{bound[0]} of {size} bytes; at most {bound[1]} are read")
        return True

    cdef Py_ssize_t _begin_long(
            self, const char* data, Py_ssize_t length, Py_ssize_t size) except -1:
        """Keep the beginning of a long frame where it need not be copied again; what was taken."""
        if length < 6 or size <= LONG_BYTES:
            return 0
        self._long_room = min(size, READ_AHEAD_BYTES)
        self._long = PyBytes_FromStringAndSize(NULL, self._long_room)
        self._long_size, self._filled = size, 0
        return 4 + self._fill(data + 4, length - 4)

    cdef Py_ssize_t _fill(self, const char* data, Py_ssize_t length) except -1:
        """More of a long frame, which is taken when it is whole. Its memory grows as it comes."""
        cdef Py_ssize_t taken = min(length, self._long_size - self._filled)
        if self._filled + taken > self._long_room:
            self._long_room = min(self._long_size, max(2 * self._long_room, self._filled + taken))
            owner, self._long = [self._long], None
            self._long = resized(owner, self._long_room)
        memcpy(PyBytes_AS_STRING(self._long) + self._filled, data, taken)
        self._filled += taken
        if self._filled == self._long_size:
            self._hub.halves.end(self, self._filled - taken)
            whole, self._long = self._long, None
            if not self._hub.draining:
                self._hub._enqueue(self, whole)
        elif self._hub.halves.grow(self, self._filled, taken):
            self._hub._make_room()
        return taken

    cdef int _take_next(self) except -1:
        """Take the next waiting frame if one may be taken, then settle whether to read on."""
        cdef Py_ssize_t taken = 0
        cdef Py_ssize_t length
        if self._waiting is not None and self._may_take():
            length = PyByteArray_GET_SIZE(self._waiting) - self._start
            taken = self._take(PyByteArray_AS_STRING(self._waiting) + self._start, length)
            if taken < 0:
                return 0
            self._start += taken
            if taken == length:
                self._drop_waiting()
            elif self._start >= READ_AHEAD_BYTES:
                del self._waiting[:self._start]
                self._hub.ahead_bytes -= self._start
                self._start = 0
        return self._pause_beyond_bound()

    cdef int _keep(self, const char* data, Py_ssize_t length) except -1:
        cdef Py_ssize_t end
        if self._waiting is None:
            self._waiting = bytearray()
        end = PyByteArray_GET_SIZE(self._waiting)
        PyByteArray_Resize(self._waiting, end + length)
        self._hub.ahead_bytes += length
        memcpy(PyByteArray_AS_STRING(self._waiting) + end, data, length)
        return 0

    cdef int _pause_beyond_bound(self) except -1:
        """Stop reading where frames wait beyond the bound; read on where one is not whole."""
        cdef bint enough
        cdef bint is_much = self._hub.ahead_bytes > self._hub.most_ahead_bytes
        cdef Py_ssize_t most = LITTLE_AHEAD_BYTES if is_much else READ_AHEAD_BYTES
        enough = (self._waiting is not None and not self._may_take()
                  and PyByteArray_GET_SIZE(self._waiting) - self._start >= most)
        if enough == self._reading and not self._transport.is_closing():
            self._reading = not enough
            if enough:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
        return 0

    cdef bint _may_send(self) except -1:
        """Whether a reply may go past the transport, which has nothing left to send."""
        if self._closed or self._descriptor < 0:
            return False
        if self._is_buffered:
            self._is_buffered = (
                self._transport.get_write_buffer_size() > 0 or self._transport.is_closing())
        return not self._is_buffered

    cdef int _reply(self, reply) except -1:
        self._answered(len(reply))
        if not self._closed:
            self._hand_over(reply, 0)
            self._go_on()
        return 0

    cdef int _answered(self, Py_ssize_t size) except -1:
        self._ticket = 0
        if PyBytes_GET_SIZE(self._frame) > READ_AHEAD_BYTES:
            self._hub.freeing.take(self._frame)
        self._frame = None
        if not self._closed:
            self._hub.sent_bytes_total += size
        return 0

    cdef int _hand_over(self, reply, Py_ssize_t sent) except -1:
        """To the transport, which sends the rest when it can. It is not copied: it may be large."""
        self._is_buffered = True
        self._write(memoryview(reply)[sent:] if sent else reply)
        return 0

    cdef int _go_on(self) except -1:
        """The next request, where one waits."""
        if self._waiting is not None or not self._reading:
            self._take_next()
        return 0

    cdef int _close(self) except -1:
        if not self._closed:
            self._closed = True
            self._abandon()
            self._forget()
            self._transport.close()
        return 0
