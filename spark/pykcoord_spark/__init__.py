"""pykcoord on Spark: history replayed, groups assigned in bulk, shards hosted by executors.

    import pykcoord_spark as ks

What is named here is imported when it is first used: a worker of Spark that needs one part does not
pay for the others. No module of the package has the name of what it exports (`replay` is in
`replaying`): importing a module would put it in the place of the function.
"""

from __future__ import annotations

import importlib

# Exported names, and their modules.
_EXPORTS = {
    "Cluster": "hosting.cluster",
    "decode": "decoding",
    "Replay": "replaying",
    "assign": "assigning",
    "coordinate": "streaming",
    "replay": "replaying",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'pykcoord_spark' has no attribute {name!r}")
    return getattr(importlib.import_module(f"pykcoord_spark.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
