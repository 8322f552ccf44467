"""The server: sockets, API negotiation, node-level APIs. Only this package opens sockets.

Metrics are in `metrics` and `metrics_listener`: who wants none neither imports nor pays for them.
"""

from pykcoord.catalogue import Catalogue, Topic, TopicCatalogue
from pykcoord.server.api.node_api import Broker, Peers
from pykcoord.server.listener import Server

__all__ = [
    "Broker",
    "Catalogue",
    "Peers",
    "Server",
    "Topic",
    "TopicCatalogue",
]
