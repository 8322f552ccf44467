"""SASL mechanisms as conversations: what a client sends, given what it received. Pure, but for the
token of OAUTHBEARER, which `tokens.py` gets.

PLAIN (RFC 4616), SCRAM-SHA-256 and -512 (RFC 5802, 7677; Kafka's ScramSaslClient: UTF-8 without
SASLprep), OAUTHBEARER (RFC 7628).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator, Mapping

from pykcoord.errors import ConfigError
from pykcoord.kafka.jaas import jaas_options

__all__ = ["Conversation", "RefusedError", "credentials_of", "oauthbearer", "plain", "scram"]

Conversation = Generator[bytes, bytes, None]
"""Yields what is to be sent, is sent what was received, and returns when it has ended."""

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# The server says how much work the password is; Kafka's default is 4,096 (its greatest 16,384).
_MOST_ITERATIONS = 1_000_000


class RefusedError(Exception):
    """The server refused, or is not who it should be. The text says which."""


def credentials_of(values: Mapping[str, str]) -> tuple[str, str]:
    """User name and password of `sasl.jaas.config`. Raises ConfigError, which never shows them."""
    options = module_options(values)
    try:
        return options["username"], options["password"]
    except KeyError as missing:
        raise ConfigError("sasl.jaas.config", f"no option {missing}") from None


def module_options(values: Mapping[str, str]) -> dict[str, str]:
    """The options of the login module. Raises ConfigError."""
    text = values.get("sasl.jaas.config", "").strip()
    if not text:
        raise ConfigError(
            "sasl.jaas.config",
            "missing; such as org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="watch" password="...";',
        )
    try:
        return jaas_options(text)[1]
    except ValueError as error:
        raise ConfigError("sasl.jaas.config", str(error)) from None


def plain(username: str, password: str) -> Conversation:
    """PLAIN: the password as it is; only over TLS is it a secret."""
    yield b"\0" + username.encode() + b"\0" + password.encode()


def oauthbearer(token: str, extensions: Mapping[str, str]) -> Conversation:
    """OAUTHBEARER: the token. A server that refuses it says why in its answer."""
    extra = "".join(f"\x01{name}={value}" for name, value in sorted(extensions.items()))
    answer = yield f"n,,\x01auth=Bearer {token}{extra}\x01\x01".encode()
    if answer:
        yield b"\x01"
        raise RefusedError(f"the token was refused: {answer[:500].decode('utf-8', 'replace')}")


def scram(mechanism: str, username: str, password: str, nonce: str | None = None) -> Conversation:
    """SCRAM: proves that both sides know the password. `nonce`: for tests."""
    name = username.replace("=", "=3D").replace(",", "=2C")
    nonce = nonce or base64.b64encode(secrets.token_bytes(24)).decode()
    bare = f"n={name},r={nonce}"
    first = yield b"n,," + bare.encode()
    fields = _fields(first)
    salt, iterations, whole_nonce = _challenge(fields)
    if not whole_nonce.startswith(nonce) or whole_nonce == nonce:
        raise RefusedError("the server's nonce is not of this conversation")
    hash_name = _HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    last = f"c=biws,r={whole_nonce}"
    signed = f"{bare},{first.decode()},{last}".encode()
    signature = hmac.digest(stored_key, signed, hash_name)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    answer = _fields((yield f"{last},p={base64.b64encode(proof).decode()}".encode()))
    if "e" in answer:
        raise RefusedError(f"the server says {answer['e']}")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), signed, hash_name)
    if not hmac.compare_digest(_decoded(answer.get("v", "")), expected):
        raise RefusedError("the server does not know the password: it is not the one it should be")


def _challenge(fields: Mapping[str, str]) -> tuple[bytes, int, str]:
    if "e" in fields:
        raise RefusedError(f"the server says {fields['e']}")
    iterations = fields.get("i", "")
    if not iterations.isdigit() or not 1 <= int(iterations) <= _MOST_ITERATIONS:
        raise RefusedError(f"{iterations!r} iterations; up to {_MOST_ITERATIONS} are done")
    return _decoded(fields.get("s", "")), int(iterations), fields.get("r", "")


def _fields(message: bytes) -> dict[str, str]:
    try:
        parts = message.decode("utf-8").split(",")
    except UnicodeDecodeError:
        raise RefusedError("the server's message is no text") from None
    return {part[:1]: part[2:] for part in parts if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise RefusedError("the server's message is not SCRAM") from None
