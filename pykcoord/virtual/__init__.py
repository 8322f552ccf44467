"""A shard and its clients in virtual time: members that behave, and ways in which they do not.

Members of classic groups join, sync, heartbeat and rejoin like a client library; those of consumer
groups heartbeat with what they own. Time jumps from one thing to do to the next.
"""

from pykcoord.virtual.classic import Client
from pykcoord.virtual.consumer import Native
from pykcoord.virtual.messages import CONSUMER, HEARTBEAT, build
from pykcoord.virtual.world import START_MS, World

__all__ = ["CONSUMER", "HEARTBEAT", "START_MS", "Client", "Native", "World", "build"]
