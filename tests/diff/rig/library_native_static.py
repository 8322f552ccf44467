"""KIP-848 in depth: static members (consumer-protocol.md §6)."""

from library import scenario
from library_native import GIVEN, TAGS, settle
from scenario import K0, K1


# -- static members -----------------------------------------------------------------------------------------------------------


@scenario("consumer §6", tags=TAGS + ("static",), exact=True)
def n_static_away_and_back(s):
    """Away (-2): Reconciling, partitions kept; back with another id: same partitions, no new epoch."""
    s.join848("a", [K0], instance="ia")
    s.join848("b", [K0])
    s.heartbeat848("a", instance="ia", owned="$owned:a")
    s.heartbeat848("a", instance="ia", owned="$owned:a")
    s.heartbeat848("b")
    s.describe848(expect={"groups[0].group_state": "Stable", "groups[0].group_epoch": 3})
    s.heartbeat848("a", epoch=-2, instance="ia", expect={"member_epoch": -2, "heartbeat_interval_ms": 0})
    s.describe848(expect={"groups[0].group_state": "Reconciling", "groups[0].group_epoch": 3})
    s.heartbeat848("b", owned="$owned:b", expect={"assignment": None})
    s.join848("a2", [K0], instance="ia", expect={"error_code": 0, "member_epoch": 3, f"#{GIVEN}[0].partitions": 2})
    s.describe848(expect={"groups[0].group_state": "Stable", "groups[0].group_epoch": 3})
    s.heartbeat848("a", epoch=3, instance="ia", expect=82)
    s.heartbeat848("a", epoch=3, expect=25)


@scenario("consumer §6", tags=TAGS + ("static",), exact=True)
def n_static_back_with_other_topics(s):
    """Back with another subscription: a new epoch."""
    s.join848("a", [K0], instance="ia")
    s.join848("b", [K0])
    s.heartbeat848("a", instance="ia", owned="$owned:a")
    s.heartbeat848("a", instance="ia", owned="$owned:a")
    s.heartbeat848("b")
    s.heartbeat848("a", epoch=-2, instance="ia")
    s.join848("a2", [K0, K1], instance="ia", expect={"error_code": 0, "member_epoch": 4})
    settle(s, "b", "a2")
    s.describe848()


@scenario("consumer §6", tags=TAGS + ("static",), exact=True)
def n_static_back_with_same_id(s):
    """The same member id may come back after -2; with its old epoch it is fenced, with 0 it is in."""
    s.join848("a", [K0], instance="ia")
    s.heartbeat848("a", epoch=-2, instance="ia", expect={"member_epoch": -2})
    s.heartbeat848("a", epoch=2, instance="ia", expect=110)
    s.heartbeat848("a", epoch=-2, instance="ia", expect={"member_epoch": -2})
    s.join848("a", [K0], instance="ia")
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §6", tags=TAGS + ("static",), exact=True)
def n_static_refusals(s):
    """A live instance is not replaced (111); fenced ids get 82, unknown instances 25, for leaving too."""
    s.join848("a", [K0], instance="ia")
    s.join848("b", [K0], instance="ia", expect=111)
    s.join848("a", [K0], instance="ia", expect=111)
    s.heartbeat848("b", epoch=2, instance="ia", expect=82)
    s.heartbeat848("b", epoch=-1, instance="ia", expect=82)
    s.heartbeat848("b", epoch=-2, instance="ia", expect=82)
    s.heartbeat848("a", epoch=2, instance="nobody", expect=25)
    s.heartbeat848("a", epoch=-1, instance="nobody", expect=25)
    s.heartbeat848("a", epoch=-2, instance="nobody", expect=25)
    s.heartbeat848("a", epoch=-2, expect=42)
    s.heartbeat848("a", epoch=2, expect=0)
    s.describe848(expect={"groups[0].group_epoch": 2, "groups[0].members[0].instance_id": "ia"})


@scenario("consumer §7", tags=TAGS + ("static",), exact=True)
def n_static_leaves_for_good(s):
    """-1 of a static member, from presence and from absence."""
    s.join848("a", [K0], instance="ia")
    s.join848("b", [K0])
    s.heartbeat848("a", epoch=-1, instance="ia", expect={"member_epoch": -1})
    s.join848("a2", [K0], instance="ia", expect=0)
    s.heartbeat848("a2", epoch=-2, instance="ia", expect={"member_epoch": -2})
    s.heartbeat848("a2", epoch=-1, instance="ia", expect={"member_epoch": -1})
    s.heartbeat848("b", owned="$owned:b")
    s.describe848(expect={"#groups[0].members": 1})


@scenario("consumer §6", tags=TAGS + ("static",), exact=True)
def n_static_away_while_revoking(s):
    """Away with partitions to give up: those are free, the rest waits for it."""
    s.join848("a", [K0], instance="ia")
    s.join848("b", [K0])
    s.heartbeat848("a", instance="ia", expect={"member_epoch": 2})
    s.heartbeat848("a", epoch=-2, instance="ia", expect={"member_epoch": -2})
    s.heartbeat848("b", owned=[], expect={"member_epoch": 3, f"#{GIVEN}[0].partitions": 2})
    s.join848("a2", [K0], instance="ia", expect={"error_code": 0, "member_epoch": 3})
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §6", tags=TAGS + ("static",), exact=True)
def n_static_without_instance_id(s):
    """A static member's heartbeat without the instance id passes for its member id; leaving so removes it."""
    s.join848("a", [K0], instance="ia")
    s.heartbeat848("a", expect=0)
    s.join848("a", [K0], expect=0)
    s.describe848(expect={"groups[0].members[0].instance_id": "ia"})
    s.heartbeat848("a", epoch=-1, expect={"member_epoch": -1})
    s.describe848(expect={"groups[0].group_state": "Empty"})


@scenario("consumer §6", tags=TAGS + ("static",), exact=True)
def n_dynamic_becomes_static(s):
    """Epoch 0 with an instance id nobody has: the member has it from then on, and may change it."""
    s.join848("a", [K0])
    s.join848("a", [K0], instance="ia", expect={"error_code": 0, "member_epoch": 2})
    s.describe848(expect={"groups[0].members[0].instance_id": "ia", "#groups[0].members": 1})
    s.join848("a", [K0], instance="ib", expect={"error_code": 0, "member_epoch": 2})
    s.heartbeat848("a", instance="ia")
    s.heartbeat848("a", instance="ib", expect=0)
    s.heartbeat848("a", epoch=-2, instance="ib", expect={"member_epoch": -2})
    s.join848("b", [K0], instance="ia")
    s.describe848()


@scenario("consumer §6", tags=TAGS + ("static", "offsets"), exact=True)
def n_static_commits(s):
    """Commits of a member that is away, and of its successor with any epoch."""
    s.join848("a", [K0], instance="ia")
    s.commit("a", {(K0, 0): 1}, gen="$epoch:a", id="$cid:a", instance="ia", expect=0)
    s.commit("a", {(K0, 0): 1}, gen="$epoch:a", id="$cid:a", instance="other", expect=0)
    s.heartbeat848("a", epoch=-2, instance="ia")
    s.commit("a", {(K0, 0): 2}, gen=2, id="$cid:a", expect=113)
    s.commit("a", {(K0, 0): 2}, gen=-2, id="$cid:a", expect=0)
    s.fetch("a", [(K0, 0)], id="$cid:a", epoch=-2, expect=0)
    s.fetch("a", [(K0, 0)], id="$cid:a", epoch=2, expect=113)
    s.join848("a2", [K0], instance="ia")
    s.commit("a2", {(K0, 0): 3}, gen=2, id="$cid:a2", expect=0)
    s.commit("a2", {(K0, 1): 4}, gen=1, id="$cid:a2", expect=0)
    s.commit("a", {(K0, 0): 5}, gen=2, id="$cid:a", expect=25)
    s.fetch("admin", None, expect=0)
