"""What the nodes of a cluster prove to each other, so that no other program gives them orders.

Who connects sends a number that is used once, who listens answers with another one and with a proof
that it knows the secret and both numbers. Each line after that has a proof of its own, of the
numbers, its place and its content: it cannot be made up, changed, or sent again. What is said is
not encrypted: there is nothing in it but who leads what.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from typing import Any

from pykcoord.errors import KcoordError
from pykcoord.log.shared import Store

__all__ = [
    "DifferentSecretError",
    "Sealed",
    "SecretError",
    "check_secret",
    "has_check",
    "new_nonce",
]

_OBJECT = "secret"
_FORMAT = 1
_ROUNDS = 100_000


class SecretError(ValueError):
    """The other end does not prove that it knows the secret: `str` says what is wrong."""


class DifferentSecretError(KcoordError):
    """This node's secret is not that of the cluster."""


def new_nonce() -> str:
    """A number that is used once."""
    return secrets.token_hex(16)


class Sealed:
    """One connection between two ends that know `secret`; both have sent their number, `asker` who
    has connected, `answerer` who has listened."""

    def __init__(self, secret: str, asker: str, answerer: str) -> None:
        seed = f"{asker}:{answerer}".encode(errors="replace")  # JSON has more than can be encoded
        self._key = hmac.digest(secret.encode(), seed, "sha256")
        self._lines = 0

    def greeting(self) -> str:
        """The proof of who listens, before anything is asked."""
        return self._proof("greeting", 0, None)

    def next_line(self) -> None:
        """Each question has the next place; its answer has the same."""
        self._lines += 1

    def of(self, name: str, fields: Any) -> str:
        """The proof of a line."""
        return self._proof(name, self._lines, fields)

    def is_right(self, proof: object, name: str, fields: Any) -> bool:
        """Whether a line has the proof that it must have."""
        wanted = self.greeting() if name == "greeting" else self.of(name, fields)
        if not isinstance(proof, str) or not proof.isascii():
            return False
        return hmac.compare_digest(proof, wanted)

    def _proof(self, name: str, place: int, fields: Any) -> str:
        said = json.dumps([name, place, fields]).encode()
        return hmac.new(self._key, said, "sha256").hexdigest()


def check_secret(store: Store, location: str, secret: str | None) -> None:
    """Raises DifferentSecretError where the nodes of the cluster have another secret, or one where
    this node has none. The first node that has one leaves a check of it in the store. Raises what
    the store raises."""
    while (content := store.read(_OBJECT)) is None:
        if secret is None:
            return
        salt = secrets.token_hex(16)
        document = {"format": _FORMAT, "salt": salt, "check": _check(secret, salt)}
        store.create(_OBJECT, json.dumps(document).encode())
    found = json.loads(content)
    if secret is None:
        raise DifferentSecretError(
            f"{location}: the nodes of this cluster have a secret (there is an object "
            f"`{_OBJECT}`), this one has none: give it theirs with --secret-file"
        )
    if not hmac.compare_digest(_check(secret, found["salt"]), found["check"]):
        raise DifferentSecretError(
            f"{location}: the secret of this node is not that of the cluster (its object "
            f"`{_OBJECT}` has a check of it): give it theirs with --secret-file"
        )


def has_check(store: Store) -> bool:
    """Whether the cluster has a secret. Raises what the store raises."""
    return store.read(_OBJECT) is not None


def _check(secret: str, salt: str) -> str:
    return hashlib.pbkdf2_hmac("sha256", secret.encode(), salt.encode(), _ROUNDS).hex()
