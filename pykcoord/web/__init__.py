"""The console: pages, JSON and metrics over HTTP, on a thread of its own beside the engine.

It asks the coordinator with Kafka's own requests, as any client would: what it shows is what
clients see, and no page costs the engine more than a client could. It decides nothing about groups.
It needs the extra `pykcoord[web]`; what is named here does not.
"""

from pykcoord.web.options import WebOptions
from pykcoord.web.source import Ends, Figures, NodeAddress, Past, Source

__all__ = ["Ends", "Figures", "NodeAddress", "Past", "Source", "WebOptions"]
