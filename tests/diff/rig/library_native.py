"""KIP-848 in depth: reconciliation, assignors, offsets (consumer-protocol.md).

Scenarios that are `exact` use topics and member ids whose order is the same by any measure (engine.in_slot, engine.ordered_id):
who gets which partition is compared. k0 has 4 partitions, k1 has 3, d0 is a scenario's own.
"""

from library import scenario
from scenario import K0, K1, LONG

TAGS = ("848",)
GIVEN = "assignment.topic_partitions"


def settle(s, *members, rounds=2):
    """Everybody heartbeats with what it owns, until the group is Stable."""
    for _ in range(rounds):
        for who in members:
            s.heartbeat848(who, owned=f"$owned:{who}")


def pair(s, topics=(K0,), **options):
    """a and b, each with its half."""
    s.join848("a", topics, **options)
    s.join848("b", topics, **options)
    settle(s, "a", "b")


# -- assignors --------------------------------------------------------------------------------------------------------------


@scenario("assignors §11.1", tags=TAGS, exact=True)
def n_uniform_uneven(s):
    """Four partitions for three members, then for two again: extras stay with who has them."""
    s.join848("a", expect={"member_epoch": 2}, topics=[K0])
    s.join848("b", [K0])
    s.join848("c", [K0])
    settle(s, "a", "b", "c", rounds=3)
    s.describe848(expect={"groups[0].group_state": "Stable", "groups[0].assignor_name": "uniform"})
    s.heartbeat848("b", epoch=-1)
    settle(s, "a", "c")
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("assignors §11.1", tags=TAGS, exact=True)
def n_uniform_two_topics(s):
    """Seven partitions of two topics for two members, later three."""
    pair(s, [K0, K1])
    s.describe848(expect={"groups[0].group_state": "Stable"})
    s.join848("c", [K0, K1])
    settle(s, "a", "b", "c", rounds=3)
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("assignors §11.2", tags=TAGS, exact=True)
def n_uniform_different_subscriptions(s):
    """Three members with different topics: the heterogeneous algorithm, and its balance when one leaves."""
    s.join848("a", [K0])
    s.join848("b", [K0, K1])
    s.join848("c", [K1])
    settle(s, "a", "b", "c", rounds=3)
    s.describe848(expect={"groups[0].group_state": "Stable"})
    s.heartbeat848("a", epoch=-1)
    settle(s, "b", "c", rounds=3)
    s.describe848()


@scenario("assignors §11.3", tags=TAGS, exact=True)
def n_range(s):
    """range: blocks per topic in the order of ids."""
    for who in "abc":
        s.join848(who, [K0, K1], assignor="range")
    settle(s, "a", "b", "c", rounds=3)
    s.describe848(expect={"groups[0].group_state": "Stable", "groups[0].assignor_name": "range"})


@scenario("assignors §11.3", tags=TAGS, exact=True)
def n_range_static_first(s):
    """range sorts static members by instance id, in front of dynamic ones."""
    s.join848("a", [K0, K1], assignor="range")
    s.join848("b", [K0, K1], assignor="range", instance="z")
    s.join848("c", [K0, K1], assignor="range", instance="y")
    for _ in range(3):
        s.heartbeat848("a", owned="$owned:a")
        s.heartbeat848("b", owned="$owned:b", instance="z")
        s.heartbeat848("c", owned="$owned:c", instance="y")
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §4", tags=TAGS, exact=True)
def n_assignor_vote(s):
    """The assignor most members name; changing it bumps the epoch with 4.4 only, with 4.3 the next target uses it."""
    s.join848("a", [K0, K1], assignor="range")
    s.join848("b", [K0, K1], assignor="range")
    settle(s, "a", "b")
    s.describe848(expect={"groups[0].assignor_name": "range", "groups[0].group_epoch": 3})
    s.heartbeat848("a", assignor="uniform", expect={"error_code": 0, "assignment": None})
    s.heartbeat848("b", assignor="uniform", expect={"error_code": 0, "assignment": None})
    s.describe848(expect={r: {"groups[0].assignor_name": "uniform", "groups[0].group_epoch": n} for r, n in (("4.3", 3), ("4.4", 4))})
    s.join848("c", [K0, K1])
    settle(s, "a", "b", "c", rounds=3)
    s.describe848(expect={r: {"groups[0].assignor_name": "uniform", "groups[0].group_epoch": n} for r, n in (("4.3", 4), ("4.4", 5))})
    s.heartbeat848("a", assignor="nonsense", expect=112)


@scenario("consumer §4", tags=TAGS, exact=True)
def n_assignor_tie(s):
    """Two assignors named equally often, in either order of arrival; members that name none have no say."""
    s.join848("a", [K0], assignor="range")
    s.join848("b", [K0], assignor="uniform")
    s.join848("c", [K0])
    s.describe848(expect={"groups[0].assignor_name": "uniform"})
    s.join848("d", [K0], assignor="uniform", group="h")
    s.join848("e", [K0], assignor="range", group="h")
    s.describe848("h", expect={"groups[0].assignor_name": "uniform"})
    s.heartbeat848("d", epoch=-1, group="h")
    s.describe848("h", expect={"groups[0].assignor_name": "range"})
    s.heartbeat848("e", epoch=-1, group="h")
    s.describe848("h", expect={"groups[0].assignor_name": "uniform"})


# -- reconciliation -----------------------------------------------------------------------------------------------------------


@scenario("consumer §5", tags=TAGS, exact=True)
def n_late_acknowledgement(s):
    """b waits in UNRELEASED while a is silent about what it owns; then it gets everything at once."""
    s.join848("a", [K0])
    s.join848("b", [K0], expect={"member_epoch": 3, f"#{GIVEN}": 0})
    s.heartbeat848("a", expect={"member_epoch": 2})
    for _ in range(3):
        s.heartbeat848("a", expect={"member_epoch": 2, "assignment": None})
        s.heartbeat848("b", owned=[], expect={"member_epoch": 3, "assignment": None})
    s.describe848(expect={"groups[0].group_state": "Reconciling"})
    s.heartbeat848("a", owned="$owned:a", expect={"member_epoch": 3, "assignment": None})
    s.heartbeat848("b", owned=[], expect={"member_epoch": 3, f"#{GIVEN}[0].partitions": 2})
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §5", tags=TAGS, exact=True)
def n_partial_acknowledgement(s):
    """A member that still reports one of the partitions it is to give up has not acknowledged; foreign ones do not matter."""
    s.join848("a", [K0])
    s.join848("b", [K0])
    s.heartbeat848("a", owned="$owned:a")
    s.heartbeat848("a", owned="$owned:a|plus2", expect={"member_epoch": 2, "assignment": None})
    s.heartbeat848("a", owned="$owned:a|before", expect={"member_epoch": 2})
    s.heartbeat848("b")
    s.heartbeat848("a", owned="$owned:a|less0", expect={"member_epoch": 3})
    s.heartbeat848("b", expect={"member_epoch": 3, f"#{GIVEN}[0].partitions": 2})


@scenario("consumer §5", tags=TAGS, exact=True)
def n_acknowledged_before_asked(s):
    """A member that reports less than it has when a new target takes the rest away skips UNREVOKED."""
    s.join848("a", [K0])
    s.join848("b", [K0])
    s.heartbeat848("a", owned=[], expect={"member_epoch": 3, f"#{GIVEN}[0].partitions": 2})
    s.heartbeat848("b", expect={"member_epoch": 3, f"#{GIVEN}[0].partitions": 2})
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §5", tags=TAGS, exact=True)
def n_newer_target_while_revoking(s):
    """c arrives while a is still giving up for b: after that a gives up once more, at its old epoch."""
    s.join848("a", [K0])
    s.join848("b", [K0])
    s.heartbeat848("a", owned="$owned:a", expect={"member_epoch": 2, f"#{GIVEN}[0].partitions": 2})
    s.join848("c", [K0, K1], expect={"member_epoch": 4})
    s.join848("d", [K0])
    s.heartbeat848("a", owned="$owned:a")
    s.heartbeat848("a", owned="$owned:a")
    s.heartbeat848("a", owned="$owned:a")
    for who in "bcd":
        s.heartbeat848(who, owned="$owned:" + who)
    settle(s, "a", "b", "c", "d")
    s.describe848()


@scenario("consumer §5", tags=TAGS, exact=True)
def n_granted_one_by_one(s):
    """Partitions of two owners arrive as each lets go."""
    s.join848("a", [K0, K1])
    s.join848("b", [K0, K1])
    settle(s, "a", "b")
    s.join848("c", [K0, K1])
    s.heartbeat848("a", owned="$owned:a")
    s.heartbeat848("a", owned="$owned:a", expect={"member_epoch": 4})
    s.heartbeat848("c", expect={"member_epoch": 4})
    s.heartbeat848("b", owned="$owned:b")
    s.heartbeat848("c", expect={"member_epoch": 4, "assignment": None})
    s.heartbeat848("b", owned="$owned:b", expect={"member_epoch": 4})
    s.heartbeat848("c", expect={"member_epoch": 4})
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §5", tags=TAGS, exact=True)
def n_owner_leaves_while_revoking(s):
    """What a leaving member was to give up is free at once."""
    s.join848("a", [K0])
    s.join848("b", [K0])
    s.heartbeat848("a")
    s.heartbeat848("a", epoch=-1, expect={"member_epoch": -1, "heartbeat_interval_ms": 0})
    s.heartbeat848("b", expect={"member_epoch": 4, f"#{GIVEN}[0].partitions": 4})
    s.describe848(expect={"groups[0].group_state": "Stable", "groups[0].group_epoch": 4})


@scenario("consumer §3", tags=TAGS, exact=True)
def n_rejoin_at_epoch_zero(s):
    """Epoch 0 of a present member: it owns nothing, keeps its target and gets it whole; also while it was to revoke."""
    pair(s)
    s.join848("a", [K0], expect={"error_code": 0, "member_epoch": 3, f"#{GIVEN}[0].partitions": 2})
    s.join848("c", [K0])
    s.join848("d", [K0])
    s.heartbeat848("a", expect={"member_epoch": 3, f"#{GIVEN}[0].partitions": 1})
    s.join848("a", [K0], expect={"error_code": 0, "member_epoch": 5, f"#{GIVEN}[0].partitions": 1})
    settle(s, "b", "c", "d", "a")
    s.describe848()


@scenario("consumer §3", tags=TAGS, exact=True)
def n_lost_answer_subsets(s):
    """With the previous epoch: a subset of what is assigned is fine, more or nothing said is fenced."""
    s.join848("a", [K0])
    s.join848("b", [K0])
    s.heartbeat848("a")
    s.heartbeat848("a", owned="$owned:a", expect={"member_epoch": 3})
    s.heartbeat848("a", epoch=2, owned="$owned:a|plus3", expect=110)
    s.heartbeat848("a", epoch=2, owned="$owned:a|less0", expect={"member_epoch": 3, "assignment": None})
    s.heartbeat848("a", epoch=2, owned=[], expect={"member_epoch": 3})
    s.heartbeat848("a", epoch=1, owned=[], expect=110)
    s.heartbeat848("a", epoch=4, owned=[], expect=110)
    s.heartbeat848("a", epoch=3, expect=0)


@scenario("consumer §5", tags=TAGS, exact=True)
def n_previous_epoch_moves_without_progress(s):
    """A round without progress in UNRELEASED makes the previous epoch the present one: the one before is then fenced."""
    pair(s)
    s.join848("c", [K0])
    s.join848("d", [K0], expect={"member_epoch": 5})
    s.heartbeat848("c", owned=[])
    s.heartbeat848("c", epoch=4, owned=[], expect={"error_code": 0, "member_epoch": 5})
    s.heartbeat848("c", owned=[], expect={"error_code": 0, "member_epoch": 5})
    s.heartbeat848("c", epoch=4, owned=[], expect=110)


@scenario("consumer §4", tags=TAGS, exact=True)
def n_full_request_always_answered_whole(s):
    """Assignment comes with full requests and changes only; a request that lacks one field is not full."""
    s.join848("a", [K0])
    s.heartbeat848("a", topics=[K0], owned="$owned:a", rebalance=LONG, expect={f"#{GIVEN}[0].partitions": 4})
    s.heartbeat848("a", topics=[K0], owned="$owned:a", expect={"assignment": None})
    s.heartbeat848("a", topics=[K0], rebalance=LONG, expect={"assignment": None})
    s.heartbeat848("a", owned="$owned:a", rebalance=LONG, expect={"assignment": None})
    s.heartbeat848("a", regex="", owned="$owned:a", rebalance=LONG, v=1, expect={f"#{GIVEN}[0].partitions": 4})
    s.describe848(expect={"groups[0].group_epoch": 2})


# -- offsets and administration -----------------------------------------------------------------------------------------------


@scenario("offsets §2.2", tags=TAGS + ("offsets",), exact=True)
def n_commit_with_older_epoch(s):
    """KIP-1251: an older epoch may commit what it had by then and still has, or is giving up; one foreign partition fails all."""
    s.join848("a", [K0])
    s.join848("b", [K0])
    s.heartbeat848("a")
    s.commit("a", {(K0, 0): 1, (K0, 3): 1}, gen=2, id="$cid:a", expect=0)
    s.heartbeat848("a", owned="$owned:a")
    s.heartbeat848("b")
    s.commit("a", {(K0, 0): 2}, gen=2, id="$cid:a", expect=0)
    s.commit("a", {(K0, 0): 3, (K0, 3): 3}, gen=2, id="$cid:a", expect=113)
    s.commit("a", {(K0, 0): 4}, gen=1, id="$cid:a", expect=113)
    s.commit("b", {(K0, 3): 5}, gen=2, id="$cid:b", expect=113)
    s.commit("b", {(K0, 0): 6}, gen=3, id="$cid:b", expect=0)
    s.commit("a", {(K0, 0): (7, "x" * 4097), (K0, 3): (7, "x" * 4097)}, gen=2, id="$cid:a")
    s.fetch("admin", None, expect=0)


@scenario("offsets §2.2", tags=TAGS + ("offsets",), exact=True)
def n_commit_without_membership(s):
    """Outsiders: refused while there are members, welcome in an empty group; old versions of members refused."""
    s.join848("a", [K0])
    s.commit("admin", {(K0, 0): 1}, expect=25)
    s.commit("x", {(K0, 0): 1}, gen=2, id="nobody", expect=25)
    s.commit("a", {(K0, 0): 1}, gen=2, id="$cid:a", v=8, expect=35)
    s.commit("a", {(K0, 0): 1}, gen=2, id="$cid:a", v=10, expect=0)
    s.commit("a", {(K0, 0): 1}, gen=3, id="$cid:a", expect=113)
    s.commit("a", {(K0, 0): 1}, gen=-1, id="$cid:a", expect=113)
    s.heartbeat848("a", epoch=-1)
    s.commit("admin", {(K0, 1): 2}, expect=0)
    s.commit("x", {(K0, 1): 2}, gen=3, id="nobody", expect=25)
    s.commit("a", {(K0, 1): 3}, gen=-1, id="$cid:a", expect=0)
    s.fetch("admin", None, v=10, expect=0)


@scenario("offsets §4", tags=TAGS + ("offsets",), exact=True)
def n_fetch_as_member(s):
    """v9: member id and epoch must fit; without them anybody may look; v8 does not say who it is."""
    s.join848("a", [K0])
    s.commit("a", {(K0, 0): 1}, gen=2, id="$cid:a", expect=0)
    for v in (9, 10):
        s.fetch("a", [(K0, 0), (K0, 1)], v=v, id="$cid:a", epoch=2, expect=0)
        s.fetch("a", [(K0, 0)], v=v, id="$cid:a", epoch=1, expect=113)
        s.fetch("a", [(K0, 0)], v=v, id="$cid:a", epoch=-1, expect=113)
        s.fetch("a", [(K0, 0)], v=v, id="nobody", epoch=2, expect=25)
        s.fetch("a", [(K0, 0)], v=v, id="", epoch=-1, expect=25)
        s.fetch("a", None, v=v, id=None, epoch=2, expect=-1)
    s.fetch("admin", None, v=8, expect=0)
    s.fetch("admin", [(K0, 0)], v=1, expect=0)
    s.heartbeat848("a", epoch=-1)
    s.fetch("a", [(K0, 0)], id="$cid:a", epoch=3, expect=25)


@scenario("consumer §11", tags=TAGS, exact=True)
def n_delete_group(s):
    """Not while there are members, an away static one included; then for good."""
    s.join848("a", [K0], instance="ia")
    s.commit("a", {(K0, 0): 1}, gen=2, id="$cid:a", expect=0)
    s.delete_groups(expect=68)
    s.heartbeat848("a", epoch=-2, instance="ia")
    s.delete_groups(expect=68)
    s.heartbeat848("a", epoch=-1, instance="ia")
    s.delete_groups(expect=0)
    s.delete_groups(expect=69)
    s.describe848(expect=69)
    s.heartbeat848("a", epoch=2, expect=69)
    s.fetch("admin", None, expect=0)
    s.join848("b", [K0], expect={"error_code": 0, "member_epoch": 2})


@scenario("consumer §10", tags=TAGS, exact=True)
def n_describe(s):
    """Current and target assignment at each step; partitions pending revocation are shown as assigned; v0 and v1."""
    s.join848("a", [K0, K1], rack="r1", instance="ia")
    s.describe848(v=0)
    s.join848("b", [K0])
    s.describe848()
    s.heartbeat848("a", instance="ia")
    s.describe848()
    s.heartbeat848("a", instance="ia", owned="$owned:a")
    s.heartbeat848("b")
    s.describe848(v=0)
    s.describe848("g", "absent", "g")
    s.list(types=["consumer"], v=5, expect={"groups[0].group_type": "consumer", "groups[0].protocol_type": "consumer"})
    s.list(["STABLE"], ["CONSUMER"], v=5)
    s.list(["stable"], ["classic"], v=5, expect={"#groups": 0})
    s.list(v=4)


@scenario("consumer §2", tags=TAGS, exact=True)
def n_made_id(s):
    """v0 with an empty id: the server makes one, 22 characters; it is then used as any other."""
    s.join848("a", [K0], id="", v=0, expect=0)
    s.heartbeat848("a", id="$id:a", expect=0)
    s.heartbeat848("a", id="$id:a", epoch=-1, expect={"member_epoch": -1})
    s.join848("b", [K0], id="not a uuid at all", expect=0)
    s.join848("b", [K0], id=" ", expect=42)


@scenario("consumer §2", profile="alt", tags=TAGS, exact=True)
def n_group_size(s):
    """group.consumer.max.size (3 in this profile): 81 for the fourth, of either protocol; with 4.3 for the successor of a static one too."""
    s.join848("a", [K0], instance="ia")
    s.join848("b", [K0])
    s.join848("c", [K0])
    s.join848("d", [K0], expect=81)
    s.join("e", id="$cid:e", expect=81)
    s.join848("c", [K0], expect=0)
    s.heartbeat848("a", epoch=-2, instance="ia")
    s.join848("a2", [K0], instance="ia", expect={"4.3": 81, "4.4": 0})
    s.heartbeat848("b", epoch=-1)
    s.join848("a2", [K0], instance="ia", expect={"4.3": 0, "4.4": 111})
    s.join848("d", [K0], expect=0)
    s.describe848()


# -- clocks -------------------------------------------------------------------------------------------------------------------


@scenario("consumer §7", tags=TAGS + ("timer",), exact=True)
def n_rebalance_timeout_met(s):
    """Acknowledged in time: nobody is fenced. The timer starts anew with each UNREVOKED write."""
    s.join848("a", [K0], rebalance=1200)
    s.join848("b", [K0])
    s.heartbeat848("a", expect={"member_epoch": 2})
    s.sleep(0.7)
    s.heartbeat848("a", owned="$owned:a", expect={"member_epoch": 3})
    s.sleep(1.2)
    s.heartbeat848("a", expect=0)
    s.heartbeat848("b", expect=0)
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §7", tags=TAGS + ("timer", "static"), exact=True)
def n_rebalance_timeout_of_static(s):
    """A static member that does not revoke in time is removed like any other."""
    s.join848("a", [K0], rebalance=1000, instance="ia")
    s.join848("b", [K0])
    s.heartbeat848("a", instance="ia", expect={"member_epoch": 2})
    s.sleep(1.7)
    s.heartbeat848("a", epoch=2, instance="ia", expect=25)
    s.heartbeat848("b", expect={"member_epoch": 4, f"#{GIVEN}[0].partitions": 4})


@scenario("consumer §7", tags=TAGS + ("timer", "static"), profile="expiry", exact=True)
def n_static_away_expires(s):
    """-2 does not stop the session timer (1500 in this profile): not back in time, the member is gone."""
    s.join848("a", [K0], instance="ia")
    s.heartbeat848("a", epoch=-2, instance="ia")
    s.sleep(0.7)
    s.describe848(expect={"groups[0].group_state": "Reconciling"})
    s.sleep(1.7)
    s.describe848()
    s.join848("a2", [K0], instance="ia", expect=0)


@scenario("consumer §4.1", tags=TAGS + ("timer",), profile="expiry", exact=True)
def n_unsubscribed_before_interval(s):
    """Within the assignment interval (1000 here) a dropped topic is taken away at once, a new one waits."""
    s.join848("a", [K0], expect={"member_epoch": 2})
    s.heartbeat848("a", topics=[K1], owned="$owned:a", expect={"member_epoch": 2, f"#{GIVEN}": 0})
    s.heartbeat848("a", owned=[], expect={"member_epoch": 2, "assignment": None})
    s.describe848(expect={"groups[0].group_epoch": 3, "groups[0].assignment_epoch": 2})
    s.sleep(1.25)
    s.heartbeat848("a", owned=[], expect={"member_epoch": 3, f"#{GIVEN}": 1})


@scenario("consumer §7", tags=TAGS + ("timer",), profile="expiry", exact=True)
def n_one_of_two_expires(s):
    """The one that goes on takes over what the silent one had."""
    s.join848("a", [K0])
    s.join848("b", [K0], instance="ib")
    for _ in range(6):
        s.sleep(0.5)
        s.heartbeat848("a", owned="$owned:a", expect=0)
    s.describe848(expect={"groups[0].group_state": "Stable", "#groups[0].members": 1})
    s.heartbeat848("b", epoch=2, instance="ib", expect=25)
