"""One connection to a broker: TLS, SASL, ApiVersions, and requests one after the other.

Frames are bounded before they are read. What breaks the protocol closes the connection, and so does
an answer that is not waited for any more: no answer can be taken for another request's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from typing import Any

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from pykcoord.addresses import address_text
from pykcoord.clock import monotonic_seconds
from pykcoord.errors import ConfigError
from pykcoord.kafka import sasl
from pykcoord.kafka.client_properties import ClientProperties
from pykcoord.kafka.errors import (
    AuthenticationError,
    NonsenseError,
    OldClusterError,
    UnreachableError,
)
from pykcoord.kafka.tls import context_of
from pykcoord.kafka.tokens import token_of
from pykcoord.protocol import decode_response, encode_request

__all__ = ["Connection", "Connector"]

# Metadata of 100,000 partitions is 3 MB; what is larger than this is no answer of a broker.
_MOST_CONTROL_BYTES = 64 << 20
_BUFFER_BYTES = 1 << 20
# Of a session that the broker ends: a new connection is made before.
_SESSION_PART = 0.85
_UNSUPPORTED_VERSION = 35
# What a server of another kind begins with, as the length of a frame.
_OTHERS = {
    b"HTTP": "it speaks HTTP",
    b"\x15\x03\x01\x00": "it speaks TLS: set security.protocol=SSL or SASL_SSL",
    b"\x15\x03\x02\x00": "it speaks TLS: set security.protocol=SSL or SASL_SSL",
    b"\x15\x03\x03\x00": "it speaks TLS: set security.protocol=SSL or SASL_SSL",
    b"SSH-": "it speaks SSH",
}


class Connector:
    """Makes connections with one configuration. Raises ConfigError for TLS that cannot be set up.

    `most_fetch_bytes` bounds an answer to Fetch, which may be larger than any other.
    """

    def __init__(self, properties: ClientProperties) -> None:
        self.properties = properties
        self._tls = context_of(properties.values) if properties.uses_tls else None
        if properties.sasl_mechanism and properties.sasl_mechanism != "OAUTHBEARER":
            sasl.credentials_of(properties.values)

    async def connect(self, host: str, port: int) -> Connection:
        """Connected and authenticated, with the versions of the broker known. Raises
        UnreachableError, AuthenticationError, NonsenseError, OldClusterError, ConfigError."""
        address = address_text(host, port)
        seconds = self.properties.socket_connection_setup_timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await asyncio.open_connection(
                    host, port, limit=_BUFFER_BYTES, ssl=self._tls
                )
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationError(
                address, f"its certificate is not trusted ({error.verify_message})"
            ) from None
        except ssl.SSLError as error:
            raise AuthenticationError(
                address, f"no TLS with it ({error.reason or error}); is it a listener of SSL?"
            ) from None
        except TimeoutError:
            raise UnreachableError(address, f"no connection within {seconds:g} s") from None
        except OSError as error:
            raise UnreachableError(address, _reason(error)) from None
        connection = Connection(address, reader, writer, self.properties)
        try:
            await connection.begin()
        except BaseException:
            connection.close()
            raise
        return connection


def _reason(error: OSError) -> str:
    """The system's words: asyncio has its own for a connection that is refused."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


class Connection:
    """See `Connector.connect`. `address` is HOST:PORT; `versions` the broker's APIs: key to least
    and greatest version."""

    def __init__(
        self,
        address: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        properties: ClientProperties,
    ) -> None:
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        self._reader = reader
        self._writer = writer
        self._properties = properties
        self._correlation_id = 0
        self._turn = asyncio.Lock()
        self._ends_at: float | None = None
        self._is_closed = False

    @property
    def is_usable(self) -> bool:
        """Whether the next request can go over it."""
        if self._is_closed or self._reader.at_eof():
            return False
        return self._ends_at is None or monotonic_seconds() < self._ends_at

    async def begin(self) -> None:
        """Learns the versions, and authenticates."""
        request = ApiVersionsRequest(client_software_name="pykcoord", client_software_version="1")
        answer = await self.ask(request, checked=False)
        if answer.error_code.value == _UNSUPPORTED_VERSION:
            raise OldClusterError(self.address, "older than Kafka 2.4; 3.1 or newer is needed")
        self.versions = {
            int(api.api_key): (int(api.min_version), int(api.max_version))
            for api in answer.api_keys
        }
        if self._properties.sasl_mechanism:
            await self._authenticate(self._properties.sasl_mechanism)

    async def ask(
        self,
        request: Any,
        *,
        seconds: float | None = None,
        most_bytes: int = _MOST_CONTROL_BYTES,
        checked: bool = True,
    ) -> Any:
        """The answer to a kio request. `seconds`: to wait, `request.timeout.ms` if not given.

        Raises OldClusterError if the broker lacks the version, UnreachableError, NonsenseError.
        """
        if checked:
            self.check_version(request)
        frame = encode_request(request, 0, self._properties.client_id)
        return self.read(request, await self.exchange(frame, seconds, most_bytes))

    def read(self, request: Any, answer: bytes) -> Any:
        """What a frame says that `exchange` gave as the answer to a kio request. Raises
        NonsenseError."""
        try:
            return decode_response(request, answer)
        except Exception as error:  # whatever kio makes of bytes that are no answer
            self.close()
            name = type(request).__name__
            reason = f"its answer to {name} cannot be read ({error!r:.200})"
            raise NonsenseError(self.address, reason) from None

    def has(self, api_key: int, version: int) -> bool:
        """Whether the broker serves that version."""
        least, most = self.versions.get(api_key, (0, -1))
        return least <= version <= most

    def check_version(self, request: Any) -> None:
        """Raises OldClusterError if the broker does not serve this version of the API."""
        if not self.has(int(request.__api_key__), int(request.__version__)):
            least, most = self.versions.get(int(request.__api_key__), (0, -1))
            name = type(request).__name__.removesuffix("Request")
            raise OldClusterError(
                self.address,
                f"{name} v{request.__version__} is needed, and it serves {least} to {most}; "
                "Kafka 3.1 or newer is needed",
            )

    async def exchange(self, frame: bytes, seconds: float | None, most_bytes: int) -> bytes:
        """Sends a frame (header and body; its correlation id is set here) and waits for the one
        that answers it."""
        async with self._turn:
            if self._is_closed:
                raise UnreachableError(self.address, "the connection was closed")
            self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
            correlation = self._correlation_id.to_bytes(4, "big")
            limit = self._properties.request_timeout_ms / 1000 if seconds is None else seconds
            try:
                async with asyncio.timeout(limit):
                    self._writer.write(
                        len(frame).to_bytes(4, "big") + frame[:4] + correlation + frame[8:]
                    )
                    await self._writer.drain()
                    answer = await self._read_frame(most_bytes)
            except TimeoutError:
                self.close()
                raise UnreachableError(self.address, f"no answer within {limit:g} s") from None
            except asyncio.IncompleteReadError:
                self.close()
                raise UnreachableError(self.address, "it closed the connection") from None
            except OSError as error:
                self.close()
                raise UnreachableError(self.address, error.strerror or str(error)) from None
            except BaseException:
                self.close()
                raise
            if answer[:4] != correlation:
                self.close()
                raise NonsenseError(self.address, "it answers a request that was not sent")
            return answer

    def close(self) -> None:
        """Ends it; what waits for an answer hears that it was closed. Safe to call twice."""
        self._is_closed = True
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._writer.transport.abort()

    async def _read_frame(self, most_bytes: int) -> bytes:
        head = await self._reader.readexactly(4)
        size = int.from_bytes(head, "big", signed=True)
        if not 4 <= size <= most_bytes:
            why = _OTHERS.get(head, f"a frame of {size} bytes (at most {most_bytes} are read)")
            raise NonsenseError(self.address, f"it does not speak Kafka's protocol: {why}")
        return await self._reader.readexactly(size)

    async def _authenticate(self, mechanism: str) -> None:
        handshake = await self.ask(SaslHandshakeRequest(mechanism=mechanism))
        if handshake.error_code.value:
            offered = ", ".join(handshake.mechanisms) or "none"
            reason = f"sasl.mechanism={mechanism} is not offered; the listener has: {offered}"
            raise AuthenticationError(self.address, reason)
        conversation = await self._conversation(mechanism)
        try:
            message = next(conversation)
            while True:
                answer = await self.ask(SaslAuthenticateRequest(auth_bytes=message))
                if answer.error_code.value:
                    reason = answer.error_message or answer.error_code.name
                    raise AuthenticationError(self.address, f"{mechanism}: {reason}")
                lifetime = answer.session_lifetime.total_seconds()
                if lifetime > 0:
                    self._ends_at = monotonic_seconds() + lifetime * _SESSION_PART
                message = conversation.send(answer.auth_bytes)
        except StopIteration:
            return
        except sasl.RefusedError as error:
            raise AuthenticationError(self.address, f"{mechanism}: {error}") from None

    async def _conversation(self, mechanism: str) -> sasl.Conversation:
        values = self._properties.values
        if mechanism == "OAUTHBEARER":
            try:
                token, extensions = await asyncio.to_thread(token_of, values)
            except sasl.RefusedError as error:
                raise AuthenticationError(self.address, f"{mechanism}: {error}") from None
            return sasl.oauthbearer(token, extensions)
        username, password = sasl.credentials_of(values)
        if not username:
            raise ConfigError("sasl.jaas.config", "the user name is empty")
        if mechanism == "PLAIN":
            return sasl.plain(username, password)
        return sasl.scram(mechanism, username, password)
