"""Hosts that share a log: each serves unmodified Kafka clients for the shards that it leads.

`host` is the process that serves, `leading` what it leads, `hosted_log` how it writes, `registry`
and `topics` what all hosts read, `controller` keeps every shard led, `control` is what controller
and hosts say to each other. `supervisor` starts hosts again; how they are launched is not known
here: whoever builds on this package says it.
"""

from pykcoord.cluster.controller import Controller
from pykcoord.cluster.host import HostOptions, run_host
from pykcoord.cluster.registry import HostEntry, Registry
from pykcoord.cluster.supervisor import Supervisor
from pykcoord.cluster.topics import SharedTopics, open_topics

__all__ = [
    "Controller",
    "HostEntry",
    "HostOptions",
    "Registry",
    "SharedTopics",
    "Supervisor",
    "open_topics",
    "run_host",
]
