"""An existing Kafka cluster, read: brokers, topics and leaders, where partitions end, and batches
as they are. Opens one connection to each broker for control and one for Fetch. Nothing is changed
but by `running_group`, which knows one group as an administrator does.
"""

from pykcoord.kafka.client_properties import ClientProperties
from pykcoord.kafka.cluster import Cluster
from pykcoord.kafka.connection import Connection, Connector
from pykcoord.kafka.ends import End, Ends
from pykcoord.kafka.errors import (
    AuthenticationError,
    ClusterError,
    NonsenseError,
    NotAllowedError,
    OldClusterError,
    OtherClusterError,
    UnreachableError,
)
from pykcoord.kafka.fetching import Fetched, Fetcher, Position
from pykcoord.kafka.view import Broker, ClusterTopic, ClusterView, Leader

__all__ = [
    "AuthenticationError", "Broker", "ClientProperties", "Cluster", "ClusterError", "ClusterTopic",
    "ClusterView", "Connection", "Connector", "End", "Ends", "Fetched", "Fetcher", "Leader",
    "NonsenseError", "NotAllowedError", "OldClusterError", "OtherClusterError", "Position",
    "UnreachableError",
]  # fmt: skip
