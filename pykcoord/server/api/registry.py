"""What is served: the node-level APIs, of which a new one is a file and a line here, and the group
APIs of the native core, which has a table of its own."""

from __future__ import annotations

from pykcoord.protocol import GROUP_APIS, LONGEST_FRAMES_BYTES
from pykcoord.server.api import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from pykcoord.server.api.node_api import NodeApi

_OTHERS = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    find_coordinator.API,
    create_topics.API,
    delete_topics.API,
    offset_for_leader_epoch.API,
    describe_configs.API,
    alter_configs.API,
    alter_configs.INCREMENTAL_API,
    list_config_resources.API,
    create_partitions.API,
    describe_cluster.API,
    describe_topic_partitions.API,
)

APIS: dict[int, NodeApi] = {api.key: api for api in (*_OTHERS, api_versions.api_of(_OTHERS))}
# Of every API that is served, by key.
NAMES: dict[int, str] = {
    **{api.key: api.name for api in APIS.values()},
    **{api.key: api.name for api in GROUP_APIS},
}
# Of APIs with a bound of their own: name, and the bytes of a frame. The node-level ones have room
# for a Fetch of 30,000 partitions, and for a producer with the default of max.request.size.
MAX_REQUEST_BYTES = 2 * 1024 * 1024
LONGEST_FRAMES: dict[int, tuple[str, int]] = {
    **{key: (api.name, MAX_REQUEST_BYTES) for key, api in APIS.items()},
    **{key: (NAMES[key], size) for key, size in LONGEST_FRAMES_BYTES.items()},
}
