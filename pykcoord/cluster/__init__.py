"""Nodes that share a log: each serves unmodified Kafka clients for the shards that it leads.

`member` is a node, `driving` what drives its decisions, which are native; `journals` is how it
writes, `reading` how a shard is read, `topics` what all nodes share. `looking` is a cluster seen
from outside, `wanting` what operators want of it. `supervisor` starts nodes again where another
program launches them: how is not known here, whoever builds on this package says it.
"""

from pykcoord.cluster.looking import (
    ClusterFollower,
    ClusterState,
    NodeState,
    is_cluster,
    read_cluster,
    require_no_shard_log,
)
from pykcoord.cluster.member import MemberOptions, serve_member
from pykcoord.cluster.reading import Piece, Stretch, read_shard
from pykcoord.cluster.supervisor import Supervisor
from pykcoord.cluster.topics import SharedTopics, open_topics
from pykcoord.server.addresses import AddressError

__all__ = [
    "AddressError",
    "ClusterFollower",
    "ClusterState",
    "MemberOptions",
    "NodeState",
    "Piece",
    "SharedTopics",
    "Stretch",
    "Supervisor",
    "is_cluster",
    "open_topics",
    "read_cluster",
    "read_shard",
    "require_no_shard_log",
    "serve_member",
]
