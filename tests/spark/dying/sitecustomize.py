"""Python's hook at the start of every process: here, workers that die right after an append.

For tests that put this folder on PYTHONPATH. The process ends as by kill -9, before its last append
is reported; `PYKCOORD_DYING` is how often.
"""

import os
import random
import sys

_CHANCE = float(os.environ.get("PYKCOORD_DYING", "0"))


class _Dying:
    """Finds nothing: waits until the log's module is there, and changes it."""

    def find_spec(self, name, path=None, target=None):
        if name == "pykcoord_spark.worker":
            sys.meta_path.remove(self)
            from pykcoord.log.shared import ShardLog

            append = ShardLog.append

            def append_and_die(*arguments, **named):
                index = append(*arguments, **named)
                if random.random() < _CHANCE:
                    os._exit(9)
                return index

            ShardLog.append = append_and_die


if _CHANCE > 0:
    sys.meta_path.insert(0, _Dying())
