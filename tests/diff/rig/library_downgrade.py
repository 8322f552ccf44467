"""From the consumer protocol back to the classic one, and the clocks of mixed groups (consumer-protocol.md §8, §9)."""

from library import scenario
from library_migration import TAGS, assigned, beat, enter, metadata, sync
from scenario import K0, K1, PARKED


# -- downgrade ----------------------------------------------------------------------------------------------------------------


@scenario("consumer §8.2", tags=TAGS, exact=True)
def m_downgrade_by_leave(s):
    """The last native member leaves: a classic group, rebalancing; ids stay, natives find nothing."""
    s.join848("a", [K0])
    s.join848("b", [K0])
    enter(s, "k")
    s.heartbeat848("b", epoch=-1, expect=0)
    s.describe848(expect={"#groups[0].members": 2})
    s.heartbeat848("a", epoch=-1, expect={"error_code": 0, "member_epoch": -1})
    s.describe(expect={"groups[0].group_state": "PreparingRebalance", "#groups[0].members": 1})
    s.heartbeat848("a", epoch=3, expect=69)
    beat(s, "k", 22)  # the generation is the group's epoch now, 5; k stood at 4
    enter(s, "k", expect={"error_code": 0, "leader": "@k", "generation_id": 6})
    sync(s, "k", assign={"$cid:k": assigned({K0: [0, 1, 2, 3]})}, expect=0)
    beat(s, "k", 0)
    s.list(types=["classic"], v=5)


@scenario("consumer §8.2", tags=TAGS, exact=True)
def m_downgrade_by_leave_group(s):
    """LeaveGroup of the last native member downgrades too."""
    s.join848("a", [K0], instance="ia")
    enter(s, "k")
    s.leave("x", members=[("", "ia")], expect=0)
    s.describe()
    beat(s, "k", 27)


@scenario("consumer §8.2", tags=TAGS, exact=True)
def m_downgrade_not_when_all_leave(s):
    """Native and classic members leaving in one batch leave an empty consumer group."""
    s.join848("a", [K0])
    enter(s, "k")
    s.leave("x", members=[("$cid:k", None), ("$cid:a", None)], expect=0)
    s.describe848(expect={"groups[0].group_state": "Empty"})
    enter(s, "m", expect=25)


@scenario("consumer §8.2", tags=TAGS + ("static",), exact=True)
def m_downgrade_by_static_replacement(s):
    """The last native member, static, is replaced by JoinGroup when the target is settled: a Stable classic group, no rebalance."""
    s.join848("a", [K0], instance="ia")
    s.heartbeat848("a", epoch=-2, instance="ia", expect={"member_epoch": -2})
    s.join("k", instance="ia", protocols=[("range", metadata([K0]))], expect={"error_code": 0, "generation_id": 2})
    s.describe(expect={"groups[0].group_state": "Stable"})
    s.sync("k", instance="ia")
    s.beat("k", 0, instance="ia")
    s.heartbeat848("a", epoch=2, instance="ia", expect=69)


@scenario("consumer §8.2", tags=TAGS + ("static",), exact=True)
def m_downgrade_by_static_replacement_rebalances(s):
    """The same with another subscription: the classic group rebalances at once."""
    s.join848("a", [K0], instance="ia")
    s.heartbeat848("a", epoch=-2, instance="ia", expect={"member_epoch": -2})
    s.join("k", instance="ia", protocols=[("range", metadata([K0, K1]))])
    s.describe()
    s.beat("k", instance="ia")
    s.join("k", instance="ia", protocols=[("range", metadata([K0, K1]))])
    s.sync("k", {"k": assigned({K0: [0]})}, instance="ia")
    s.describe(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §8.2", tags=TAGS + ("static",), exact=True)
def m_downgrade_replacing_a_live_member(s):
    """JoinGroup with the instance id of a native member that has not said -2 replaces it all the same."""
    s.join848("a", [K0], instance="ia")
    s.join("k", instance="ia", protocols=[("range", metadata([K0]))], expect={"error_code": 0, "generation_id": 2})
    s.describe848(expect=69)
    s.describe(v=5, expect={"groups[0].group_state": "Stable"})
    s.heartbeat848("a", instance="ia", expect=69)


@scenario("consumer §8.2", tags=TAGS + ("timer",), exact=True)
def m_downgrade_by_rebalance_timeout(s):
    """The last native member does not revoke in time."""
    s.join848("a", [K0], rebalance=1000)
    enter(s, "k")
    s.heartbeat848("a")
    s.sleep(1.7)
    s.describe(expect={"groups[0].group_state": "PreparingRebalance"})
    beat(s, "k", 27)
    enter(s, "k", expect=0)
    sync(s, "k", assign={"$cid:k": assigned({K0: [0]})}, expect=0)


@scenario("consumer §8.2", tags=TAGS + ("timer",), profile="expiry", exact=True)
def m_downgrade_by_session_timeout(s):
    """The last native member falls silent."""
    s.join848("a", [K0])
    enter(s, "k")
    sync(s, "k")
    s.sleep(2.2)
    s.describe(expect={"groups[0].group_state": "PreparingRebalance"})
    enter(s, "k", expect=0)


@scenario("consumer §8", tags=TAGS, exact=True)
def m_there_and_back(s):
    """Consumer, classic, consumer: offsets survive, the epoch goes on from the generation."""
    s.join848("a", [K0])
    s.commit("a", {(K0, 0): 1}, gen=2, id="$cid:a", expect=0)
    enter(s, "k")
    s.heartbeat848("a", epoch=-1)
    enter(s, "k", expect={"generation_id": 4})
    sync(s, "k", assign={"$cid:k": assigned({K0: [0, 1, 2, 3]})}, expect=0)
    s.commit("k", {(K0, 1): 2}, id="$cid:k", expect=0)
    s.join848("b", [K0], expect={"error_code": 0, "member_epoch": 5})
    beat(s, "k", 27)
    enter(s, "k")
    sync(s, "k")
    s.describe848()
    s.fetch("admin", None, expect=0)
    s.heartbeat848("b", epoch=-1)
    beat(s, "k")
    s.leave("k", id="$cid:k", expect=0)
    s.describe(expect={"groups[0].group_state": "Empty"})
    s.join848("c", [K0], expect={"error_code": 0, "member_epoch": 2})


@scenario("consumer §8.2", tags=TAGS, exact=True)
def m_downgrade_two_classic(s):
    """Two classic members are left: both are told to join again, both must."""
    s.join848("a", [K0])
    enter(s, "k")
    enter(s, "m")
    s.heartbeat848("a", epoch=-1)
    s.describe(expect={"groups[0].group_state": "PreparingRebalance", "#groups[0].members": 2})
    beat(s, "k", 22)
    beat(s, "m", 27)
    enter(s, "k", expect=PARKED)
    enter(s, "m", expect=0)
    s.sync("k", "$lead:k", id="$cid:k")
    s.sync("m", "$lead:m", id="$cid:m")
    s.describe(expect={"groups[0].group_state": "Stable"})


# -- clocks -------------------------------------------------------------------------------------------------------------------


@scenario("consumer §9", tags=TAGS + ("timer",), exact=True)
def m_classic_session_timeout(s):
    """A silent classic member is fenced after its own session timeout; heartbeats keep it."""
    s.join848("a", [K0])
    enter(s, "k", session=1000)
    sync(s, "k")
    s.sleep(0.6)
    beat(s, "k")
    s.sleep(0.6)
    s.describe848(expect={"#groups[0].members": 2})
    s.sleep(1.0)
    beat(s, "k", 25)
    s.describe848(expect={"#groups[0].members": 1})


@scenario("consumer §9", tags=TAGS + ("timer",), exact=True)
def m_classic_sync_timeout(s):
    """Joined, never synced: fenced after its rebalance timeout, heartbeats or not."""
    s.join848("a", [K0])
    enter(s, "k", rebalance=1000)
    s.sleep(0.5)
    beat(s, "k", 0)
    s.sleep(1.0)
    beat(s, "k", 25)
    s.describe848(expect={"#groups[0].members": 1})


@scenario("consumer §9", tags=TAGS + ("timer",), exact=True)
def m_classic_join_timeout(s):
    """Told to join again (27), does not: fenced after its rebalance timeout."""
    s.join848("a", [K0])
    enter(s, "k", rebalance=1000)
    sync(s, "k")
    s.heartbeat848("a")
    s.heartbeat848("a", owned="$owned:a")
    beat(s, "k", 27)
    s.sleep(0.5)
    beat(s, "k", 27)
    s.sleep(1.0)
    beat(s, "k", 25)
    s.describe848(expect={"#groups[0].members": 1})


@scenario("consumer §9", tags=TAGS + ("timer",), exact=True)
def m_classic_revokes_in_time(s):
    """A classic member that has to give up partitions: rebalance by 27, JoinGroup without them, in time."""
    s.join848("a", [K0], rebalance=1500)
    enter(s, "k", rebalance=1500)
    s.heartbeat848("a")
    s.heartbeat848("a", owned="$owned:a")
    enter(s, "k", rebalance=1500)
    sync(s, "k")
    s.join848("c", [K0], rebalance=1500)
    s.join848("d", [K0], rebalance=1500)
    beat(s, "k", 27)
    enter(s, "k", rebalance=1500)
    sync(s, "k")
    s.sleep(0.7)
    enter(s, "k", rebalance=1500)
    sync(s, "k")
    s.sleep(1.4)
    beat(s, "k")
    s.describe848()
