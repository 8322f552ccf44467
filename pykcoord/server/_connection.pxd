# The index of _connection.pyx: the connections of one listener and what they share.

from pykcoord.server._counting cimport Counts
from pykcoord.server._freeing cimport Freeing
from pykcoord.server._halves cimport Halves
from pykcoord.server._sending cimport Replies


cdef class Hub:
    cdef readonly dict in_flight          # ticket -> Connection, its request not yet answered
    cdef readonly set connections
    cdef readonly dict connections_by_ip  # client ip -> how many
    cdef readonly bint draining
    cdef readonly long long refused_total
    cdef readonly long long accepted_total
    cdef readonly long long received_bytes_total
    cdef readonly long long sent_bytes_total
    cdef public long long unsent_bytes    # of replies, in all channels
    cdef public bint is_full              # as many sockets were read as are at once
    cdef readonly bint is_behind          # so it was before the last `take`
    cdef list _pending                    # (ticket, session, frame) since the last turn
    cdef double _pending_since
    cdef list _long_pending               # (ticket, connection) of the long ones of these
    cdef list _long_taken                 # the same of the last turn
    cdef readonly Freeing freeing         # large buffers of connections that need them no more
    cdef readonly Halves halves           # frames that are not whole yet
    cdef readonly long long ahead_bytes   # of short and pipelined frames that are not taken yet
    cdef public long long most_ahead_bytes
    cdef readonly Counts counts           # of what was answered
    cdef Replies _replies                 # of the turn that is being delivered
    cdef long long _last_ticket
    cdef object _handler
    cdef object _seconds
    cdef Py_ssize_t _max_frame_bytes
    cdef Py_ssize_t _max_connections
    cdef Py_ssize_t _max_connections_per_ip
    cdef dict _max_connections_by_ip
    cdef dict _longest_frames             # API key -> name, bytes

    cdef bint _admit(self, Connection connection) except -1
    cdef int _let_go(self) except -1
    cdef int _enqueue(self, Connection connection, bytes frame) except -1
    cdef int _send_direct(self, list direct) except -1
    cdef int _make_room(self) except -1
    cdef int _refuse(self, Connection connection, str reason) except -1


cdef class Connection:
    cdef public object session            # who asks: see pykcoord.session
    cdef readonly str client_ip
    cdef public object memo               # for the handler: dies with the connection
    cdef Hub _hub
    cdef object _transport
    cdef object _write
    cdef int _descriptor                  # of its socket; -1: replies go through the transport
    cdef bint _is_buffered                # the transport may have something left to send
    cdef long long _ticket                # of the request in flight; 0: none
    cdef bytes _frame                     # the request in flight
    cdef double _taken_at
    cdef double _idle_since
    cdef bint _active                     # something came since the last sweep
    cdef bint _writable
    cdef bint _reading
    cdef bint _closed
    cdef bytearray _waiting               # received, not yet taken; None: nothing
    cdef Py_ssize_t _start                # of what is not yet taken, in _waiting
    cdef bytes _long                      # a long frame that is not whole yet; nothing waits then
    cdef Py_ssize_t _long_room
    cdef Py_ssize_t _long_size            # of the frame
    cdef Py_ssize_t _filled               # of it

    cdef int received(self, const char* start, Py_ssize_t length) except -1
    cdef bint _may_take(self) noexcept
    cdef int _abandon(self) except -1
    cdef int _forget(self) except -1
    cdef int _drop_waiting(self) except -1
    cdef Py_ssize_t _take(self, const char* data, Py_ssize_t length) except -2
    cdef bint _is_refused(self, const char* data, Py_ssize_t size) except -1
    cdef Py_ssize_t _begin_long(self, const char* data, Py_ssize_t length, Py_ssize_t size) except -1
    cdef Py_ssize_t _fill(self, const char* data, Py_ssize_t length) except -1
    cdef int _take_next(self) except -1
    cdef bint _may_send(self) except -1
    cdef int _reply(self, reply) except -1
    cdef int _answered(self, Py_ssize_t size) except -1
    cdef int _hand_over(self, reply, Py_ssize_t sent) except -1
    cdef int _go_on(self) except -1
    cdef int _close(self) except -1
    cdef int _keep(self, const char* data, Py_ssize_t length) except -1
    cdef int _pause_beyond_bound(self) except -1
