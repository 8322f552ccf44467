"""`pykcoord serve` with a coordinator of transactions beside that of groups, as a broker of Kafka
has both: what scenarios of transactions are asked of. The arguments are those of `pykcoord`.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord._native import partition_of
from pykcoord.cli import main, serving
from pykcoord.engine import Engine
from pykcoord.server import Server
from pykcoord.server.api import api_versions, find_coordinator, registry
from support.transactions import Coordinator

_TRANSACTION = 1
_OF_GROUPS = find_coordinator._verdict
LOOK_SECONDS = 0.4  # transaction.abort.timed.out.transaction.cleanup.interval.ms


class TransactionalServer(Server):
    """Tells the coordinator where to send its markers."""

    def __init__(self, config: Any, runtime: Any, catalogue: Any, **options: Any) -> None:
        super().__init__(config, runtime, catalogue, **options)
        self._coordinator: Coordinator = runtime.coordinator

    async def start(self) -> None:
        await super().start()
        self._coordinator.address = self.address


def open_engine(*arguments: Any, **options: Any) -> Engine:
    engine = Engine.open(*arguments, **options)
    shards = engine.config.offsets_topic_num_partitions
    coordinator = Coordinator(lambda group_id: partition_of(group_id, shards), LOOK_SECONDS)
    engine.runtime.serve_transactions(coordinator)
    engine.runtime.coordinator = coordinator  # type: ignore[attr-defined]
    apis = coordinator.apis()
    registry.APIS.update({api.key: api for api in apis})
    others = [api for key, api in registry.APIS.items() if key != api_versions.KEY]
    registry.APIS[api_versions.KEY] = api_versions.api_of(others)
    registry.NAMES.update({api.key: api.name for api in apis})
    return engine


def verdict(key_type: int, version: int) -> tuple[ErrorCode, str]:
    """FindCoordinator: this node, of transactions as well."""
    return (ErrorCode.none, "") if key_type == _TRANSACTION else _OF_GROUPS(key_type, version)


class Opening:
    open = staticmethod(open_engine)


if __name__ == "__main__":
    serving.Engine = Opening  # type: ignore[assignment,misc]
    serving.Server = TransactionalServer  # type: ignore[misc]
    find_coordinator._verdict = verdict
    main()
