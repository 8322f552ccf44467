"""The server: sockets, API negotiation, node-level APIs. Only this package opens sockets."""

from pykcoord.catalogue import Catalogue, Topic, TopicCatalogue
from pykcoord.server.api.node_api import Broker, Peers
from pykcoord.server.listener import Server
from pykcoord.server.metrics import ServerMetrics
from pykcoord.server.metrics_listener import serve_metrics

__all__ = [
    "Broker",
    "Catalogue",
    "Peers",
    "Server",
    "ServerMetrics",
    "Topic",
    "TopicCatalogue",
    "serve_metrics",
]
