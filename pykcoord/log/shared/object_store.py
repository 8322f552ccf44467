"""An object store as the place of a shared log. The only module that needs `obstore`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

try:
    from obstore.exceptions import AlreadyExistsError, NotFoundError
    from obstore.store import ObjectStore as AnyObjectStore
    from obstore.store import from_url
except ImportError as error:
    raise ImportError(
        "a log in an object store needs obstore: pip install 'pykcoord[cluster]'", name="obstore"
    ) from error

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

__all__ = ["ObjectStore", "open_url"]

_CLIENT: ClientConfig = {"timeout": "5s", "connect_timeout": "2s"}
_RETRIES: RetryConfig = {"max_retries": 2, "retry_timeout": timedelta(seconds=2)}


class ObjectStore:
    """An object store with conditional puts, by `obstore`."""

    def __init__(self, store: AnyObjectStore) -> None:
        self._store = store

    def create(self, name: str, content: bytes) -> bool:
        """See `Store`."""
        try:
            self._store.put(name, content, mode="create")
        except AlreadyExistsError:
            return False
        return True

    def read(self, name: str) -> bytes | None:
        """See `Store`."""
        try:
            return bytes(self._store.get(name).bytes())
        except (FileNotFoundError, NotFoundError):
            return None

    def names(self, folder: str) -> list[str]:
        """See `Store`."""
        listed = (each["path"] for page in self._store.list(f"{folder}/") for each in page)
        below = (path.removeprefix(f"{folder}/") for path in listed)
        return sorted(name for name in below if "/" not in name)

    def delete(self, name: str) -> None:
        """See `Store`."""
        try:
            self._store.delete(name)
        except (FileNotFoundError, NotFoundError):
            return


def open_url(url: str) -> ObjectStore:
    """See `pykcoord.log.shared.open_store`. A call is given up after seconds: what came of it is
    not known then, and who called finds out. obstore alone would go on for minutes."""
    return ObjectStore(from_url(url, client_options=_CLIENT, retry_config=_RETRIES))
