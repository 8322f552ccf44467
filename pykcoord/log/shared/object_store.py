"""An object store as the place of a shared log. The only module that needs `obstore`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from pykcoord.errors import KcoordError, MissingExtraError

try:
    from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
    from obstore.store import ObjectStore as AnyObjectStore
    from obstore.store import from_url
except ImportError as error:
    raise MissingExtraError(
        "a log in an object store needs obstore: pip install 'pykcoord[cluster]'", name="obstore"
    ) from error

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

__all__ = ["ObjectStore", "ObjectStoreError", "open_url"]

# What obstore says of a scheme that it does not know.
_UNKNOWN = "Generic URL error"
_CLIENT: ClientConfig = {"timeout": "5s", "connect_timeout": "2s"}
_ALLOWS_HTTP = ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP")
_RETRIES: RetryConfig = {"max_retries": 2, "retry_timeout": timedelta(seconds=2)}


class ObjectStoreError(OSError):
    """The object store did not do it, or did not answer: `str` says why, in one line."""


class ObjectStore:
    """An object store with conditional puts, by `obstore`. Raises ObjectStoreError."""

    def __init__(self, store: AnyObjectStore) -> None:
        self._store = store

    def create(self, name: str, content: bytes) -> bool:
        """See `Store`."""
        try:
            with _in_one_line():
                self._store.put(name, content, mode="create")
        except AlreadyExistsError:
            return False
        return True

    def read(self, name: str) -> bytes | None:
        """See `Store`."""
        try:
            with _in_one_line():
                return bytes(self._store.get(name).bytes())
        except (FileNotFoundError, NotFoundError):
            return None

    def names(self, folder: str) -> list[str]:
        """See `Store`."""
        with _in_one_line():
            listed = [each["path"] for page in self._store.list(f"{folder}/") for each in page]
        below = (path.removeprefix(f"{folder}/") for path in listed)
        return sorted(name for name in below if "/" not in name)

    def delete(self, name: str) -> None:
        """See `Store`."""
        with contextlib.suppress(FileNotFoundError, NotFoundError), _in_one_line():
            self._store.delete(name)


@contextlib.contextmanager
def _in_one_line() -> Iterator[None]:
    """obstore adds pages for who looks for an error in it."""
    try:
        yield
    except (AlreadyExistsError, NotFoundError, FileNotFoundError):
        raise
    except (BaseError, OSError) as error:
        raise ObjectStoreError(str(error).split("\n", 1)[0].strip()) from None


def open_url(url: str) -> ObjectStore:
    """See `pykcoord.log.shared.open_store`. A call is given up after seconds: what came of it is
    not known then, and who called finds out. obstore alone would go on for minutes."""
    # These options replace those that obstore takes from the environment, this one with them.
    allows_http = any(os.environ.get(name, "").lower() in ("true", "1") for name in _ALLOWS_HTTP)
    client: ClientConfig = {**_CLIENT, "allow_http": allows_http}
    try:
        with _in_one_line():
            return ObjectStore(from_url(url, client_options=client, retry_config=_RETRIES))
    except ObjectStoreError as error:
        if not str(error).startswith(_UNKNOWN):
            raise
        raise KcoordError(
            f"{url}: no store that is known: a folder, or s3://, gs://, az://"
        ) from None
