"""How a process of its own imports kio. Must not import anything of this project."""

from __future__ import annotations

import sys

__all__ = ["import_kio"]


def import_kio() -> None:
    """Import the base of kio's types as it is where `hypothesis` is not installed.

    Else it imports that, for tests of its own: 12 MB and up to 3 s of every process. Later imports
    of `hypothesis` are not affected.
    """
    if "hypothesis" in sys.modules:
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        import kio.static._phantom  # noqa: F401
    finally:
        del sys.modules["hypothesis"]
