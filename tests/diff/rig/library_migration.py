"""Groups between the protocols: classic members in consumer groups, upgrade, downgrade, mixed groups (consumer-protocol.md §8, §9).

Classic members that join a consumer group may bring an id of their own (any is accepted), so that who gets what is determined.
In a classic group ids are the server's; there the range assignor is used: it sorts by ids, and those begin with the client id.
"""

from library import scenario
from scenario import K0, K1, LONG, PARKED, subscription

TAGS = ("848", "migration", "range")
GIVEN = "assignment.topic_partitions"


def metadata(topics, owned=None, **options):
    return {"$bytes": "subscription", "topics": list(topics), "version": 1, "owned": owned or {}, **options}


def assigned(partitions, **options):
    return {"$bytes": "assignment", "partitions": partitions, **options}


def enter(s, who, topics=(K0,), owned=None, expect=0, names=("range",), **options):
    """A classic member's JoinGroup with an id of its own."""
    owned = f"$synced:{who}" if owned is None else owned
    options = {"id": f"$cid:{who}", "client_id": who, **options}
    return s.join(who, expect=expect, protocols=[(n, metadata(topics, owned)) for n in names], **options)


def sync(s, who, expect=0, **options):
    return s.sync(who, expect=expect, **{"id": f"$cid:{who}", **options})


def beat(s, who, expect=None, **options):
    return s.beat(who, expect, **{"id": f"$cid:{who}", **options})


def classic_group(s, *members, topics=(K0,), gives=None, group=None, data=None, instances=None, session=LONG, rebalance=LONG):
    """A Stable classic group whose leader is the first member; `gives` {member: {topic: partitions}}."""
    gives, instances = gives or {}, instances or {}
    for i, who in enumerate(members):
        common = {"protocols": [("range", metadata(topics))], "group": group, "session": session, "rebalance": rebalance}
        if who not in instances:
            s.join(who, expect=79, client_id=who, **common)
        s.join(who, expect=PARKED if i else 0, client_id=who, instance=instances.get(who), **common)
        for other in members[:i]:
            s.join(other, client_id=other, instance=instances.get(other), **common)
        for other in reversed(members[1 : i + 1]):
            s.sync(other, expect=PARKED, group=group, instance=instances.get(other))
        everybody = {m: (data or {}).get(m, assigned(gives.get(m, {}))) for m in members[: i + 1]}
        s.sync(members[0], everybody, group=group, instance=instances.get(members[0]), expect=0)


HALVES = {"k": {K0: [0, 1]}, "m": {K0: [2, 3]}}


# -- upgrade ------------------------------------------------------------------------------------------------------------------


@scenario("consumer §8.1", tags=TAGS, exact=True)
def m_upgrade_keeps_assignments(s):
    """Two classic members keep what they have until the newcomer's target takes some; they are told by 27 and join again."""
    classic_group(s, "k", "m", gives=HALVES)
    s.commit("k", {(K0, 0): 5}, expect=0)
    s.join848("z", [K0], assignor="range", expect={"error_code": 0, f"#{GIVEN}": 0})
    s.describe848(expect={"#groups[0].members": 3, "groups[0].group_state": "Reconciling"})
    s.list(types=["consumer"], v=5, expect={"#groups": 1})
    s.fetch("admin", None, expect=0)
    s.beat("k", 27)
    s.beat("m", 27)
    for who in ("k", "m", "k", "m"):
        s.drive_classic(who, [K0], own_id=False)
        s.drive_classic(who, [K0], own_id=False)
        s.drive_classic(who, [K0], own_id=False)
        s.heartbeat848("z")
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §8.1", tags=TAGS, exact=True)
def m_upgrade_answers_parked_requests(s):
    """Parked JoinGroup and SyncGroup are answered REBALANCE_IN_PROGRESS by the upgrade."""
    classic_group(s, "k", gives={"k": {K0: [0, 1, 2, 3]}})
    s.join("m", expect=79, client_id="m", protocols=[("range", metadata([K0]))])
    s.join("m", expect=PARKED, client_id="m", protocols=[("range", metadata([K0]))])
    s.join848("z", [K0], assignor="range", expect=0)
    s.check("m", 27)
    s.describe848()
    classic_group(s, "n", group="h")
    s.join("o", expect=79, client_id="o", protocols=[("range", metadata([K0]))], group="h")
    s.join("o", expect=PARKED, client_id="o", protocols=[("range", metadata([K0]))], group="h")
    s.join("n", client_id="n", protocols=[("range", metadata([K0]))], group="h")
    s.sync("o", expect=PARKED, group="h")
    s.join848("y", [K0], assignor="range", group="h", expect=0)
    s.check("o", 27)
    s.beat("n", group="h")
    s.describe848("h")


@scenario("consumer §8.1", tags=TAGS, exact=True)
def m_upgrade_refused(s):
    """User data in an assignment, an assignment or a subscription that cannot be read, another protocol type: 69, still classic."""
    classic_group(s, "k", data={"k": assigned({K0: [0]}, userdata=b"custom")})
    s.join848("z", [K0], expect=69)
    s.describe(expect={"groups[0].group_state": "Stable"})
    s.beat("k", 0)
    classic_group(s, "m", data={"m": b"\x00\x01\x02"}, group="h")
    s.join848("y", [K0], group="h", expect=69)
    s.beat("m", 0, group="h")
    s.stable_group("n", group="i", protocols=(("range", b"\x00"),))
    s.join848("x", [K0], group="i", expect=69)
    s.beat("n", 0, group="i")


@scenario("consumer §8.1", tags=TAGS, exact=True)
def m_upgrade_assignment_of_unknown_topics(s):
    """Topics and partitions that do not exist in a classic assignment are left out."""
    classic_group(s, "k", topics=(K0, "no-such"), gives={"k": {K0: [0, 1, 2, 3, 9], "no-such": [0]}})
    s.join848("z", [K0], assignor="range", expect=0)
    s.describe848()
    s.beat("k")
    s.drive_classic("k", [K0], own_id=False)
    s.drive_classic("k", [K0], own_id=False)
    s.describe848()


@scenario("consumer §8.1", tags=TAGS, exact=True)
def m_upgrade_same_partition_twice(s):
    """Two classic members that both claim a partition: the conversion fails with -1 and the group stays classic."""
    classic_group(s, "k", "m", gives={"k": {K0: [0, 1, 2]}, "m": {K0: [2, 3]}})
    s.join848("z", [K0], assignor="range", expect=-1)
    s.describe848(expect=69)
    s.describe(v=5)
    s.beat("k", 0)
    s.list(v=5, expect={"groups[0].group_type": "classic"})


@scenario("consumer §8.1", tags=TAGS, exact=True)
def m_upgrade_with_epoch_refused(s):
    """Only epoch 0 upgrades; others find no consumer group."""
    classic_group(s, "k", gives={"k": {K0: [0, 1, 2, 3]}})
    s.heartbeat848("z", epoch=1, expect=69)
    s.heartbeat848("z", epoch=-1, expect=69)
    s.heartbeat848("z", epoch=-2, instance="iz", expect=69)
    s.describe848(expect=69)
    s.beat("k", 0)


@scenario("consumer §8.1", tags=TAGS, exact=True)
def m_upgrade_of_emptied_group(s):
    """An Empty classic group, with generations behind it, makes way: the epoch starts anew, the offsets stay."""
    classic_group(s, "k")
    s.commit("k", {(K0, 0): 5}, expect=0)
    s.leave("k", expect=0)
    s.describe(expect={"groups[0].group_state": "Empty"})
    s.join848("z", [K0], expect={"error_code": 0, "member_epoch": 2})
    s.fetch("admin", None, expect=0)
    s.beat("k", 25)


@scenario("consumer §8.1", tags=TAGS + ("static",), exact=True)
def m_upgrade_by_static_replacement(s):
    """A native member with the instance id of a classic one takes its place at once (rolling upgrade)."""
    classic_group(s, "k", "m", gives=HALVES, instances={"k": "ik", "m": "im"})
    s.join848("y", [K0], assignor="range", instance="ik", expect={"error_code": 0, f"#{GIVEN}[0].partitions": 2})
    s.describe848(expect={"#groups[0].members": 2})
    s.beat("k", 82, instance="ik")
    s.beat("m", instance="im")
    s.join848("z", [K0], assignor="range", instance="im")
    s.heartbeat848("y", owned="$owned:y", instance="ik")
    s.heartbeat848("z", owned="$owned:z", instance="im")
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §8.1", profile="alt", tags=TAGS, exact=True)
def m_upgrade_size(s):
    """At group.consumer.max.size (3 here) the conversion is allowed, the newcomer is not: 81, and the group is classic still."""
    classic_group(s, "k", "m", "n")
    s.join848("z", [K0], expect=81)
    s.describe()
    s.beat("k")
    s.list(v=5)


# -- classic members in a consumer group --------------------------------------------------------------------------------------


@scenario("consumer §9", tags=TAGS, exact=True)
def m_classic_member_step_by_step(s):
    """Newcomer waits for partitions, gets them through SyncGroup, gives some up for another."""
    s.join848("a", [K0])
    enter(s, "k", expect={"error_code": 0, "generation_id": 3, "leader": "", "#members": 0, "protocol_name": "range"})
    sync(s, "k")
    beat(s, "k", 0)
    s.heartbeat848("a")
    beat(s, "k", 0)
    s.heartbeat848("a", owned="$owned:a")
    beat(s, "k", 27)
    enter(s, "k", expect={"generation_id": 3})
    sync(s, "k")
    beat(s, "k", 0)
    s.describe848(expect={"groups[0].group_state": "Stable"})
    s.join848("c", [K0])
    s.join848("d", [K0])
    beat(s, "k", 27)
    enter(s, "k")
    sync(s, "k")
    beat(s, "k", 27)
    enter(s, "k")
    sync(s, "k")
    beat(s, "k")
    s.describe848()


@scenario("consumer §9", tags=TAGS, exact=True)
def m_two_classic_members(s):
    """Two classic members and a native one settle."""
    s.join848("a", [K0])
    enter(s, "k")
    enter(s, "m")
    for _ in range(4):
        s.heartbeat848("a", owned="$owned:a")
        for who in ("k", "m"):
            s.drive_classic(who, [K0])
            s.drive_classic(who, [K0])
    s.describe848(expect={"groups[0].group_state": "Stable", "#groups[0].members": 3})


@scenario("consumer §9", tags=TAGS, exact=True)
def m_classic_ids(s):
    """79 hands out an id that is not remembered; any id makes a member; v3 needs none."""
    s.join848("a", [K0])
    s.join("k", expect=79, protocols=[("range", metadata([K0]))])
    s.describe848(expect={"#groups[0].members": 1})
    s.join("m", id="made up", expect=0, protocols=[("range", metadata([K0]))])
    s.describe848(expect={"#groups[0].members": 2})
    s.beat("k", 25, gen=3)
    s.leave("m", id="made up", expect=0)
    s.describe848(expect={"#groups[0].members": 1})


@scenario("consumer §9", tags=TAGS, exact=True)
def m_classic_heartbeat_errors(s):
    """Unknown ids, native ids, wrong generations, instances."""
    s.join848("a", [K0])
    enter(s, "k", instance="ik", id="")
    s.sync("k", instance="ik", expect=0)
    s.beat("k", 0, instance="ik")
    s.beat("k", 0)
    s.beat("k", 22, gen="$gen:k-1", instance="ik")
    s.beat("k", 22, gen="$gen:k+1", instance="ik")
    s.beat("k", 25, id="nobody")
    s.beat("k", 82, id="nobody", instance="ik")
    s.beat("k", 25, instance="other")
    s.beat("a", 25, id="$cid:a", gen=2)
    s.beat("a", 25, id="$cid:a", gen=3)


@scenario("consumer §9", tags=TAGS, exact=True)
def m_classic_sync_errors(s):
    """SyncGroup: who, which generation, which protocol; 27 when a newer target waits."""
    s.join848("a", [K0])
    enter(s, "k")
    s.sync("k", id="nobody", expect=25)
    s.sync("a", id="$cid:a", gen=2, name="range", expect=25)
    sync(s, "k", 22, gen="$gen:k-1")
    sync(s, "k", 22, gen="$gen:k+1")
    sync(s, "k", 23, name="roundrobin")
    sync(s, "k", 23, type="connect")
    sync(s, "k", 25, instance="ik")
    sync(s, "k", 0)
    sync(s, "k", 0)
    s.join848("c", [K0])
    sync(s, "k", 27)


@scenario("consumer §9", tags=TAGS, exact=True)
def m_classic_protocols(s):
    """What a classic member may offer: type consumer, a protocol the other classic members know; the first one is read."""
    s.join848("a", [K0])
    enter(s, "k", names=("range", "roundrobin"), expect=0)
    enter(s, "m", names=("sticky",), expect=23)
    enter(s, "m", names=("sticky", "roundrobin"), expect={"error_code": 0, "protocol_name": "sticky"})
    enter(s, "n", type="connect", expect=23)
    s.join("n", id="$cid:n", expect={"4.3": -1, "4.4": 23}, protocols=[("roundrobin", b"\x00")])
    s.join("n", id="$cid:n", protocols=[("roundrobin", subscription([]))], expect=0)
    s.describe848()


@scenario("consumer §9", tags=TAGS, exact=True)
def m_classic_resubscribes(s):
    """Another subscription in JoinGroup bumps the epoch; ownedPartitions acknowledge."""
    s.join848("a", [K0])
    enter(s, "k")
    s.heartbeat848("a")
    s.heartbeat848("a", owned="$owned:a")
    enter(s, "k")
    sync(s, "k")
    enter(s, "k", topics=(K1,), expect={"error_code": 0})
    sync(s, "k")
    enter(s, "k", topics=(K1,))
    sync(s, "k")
    s.heartbeat848("a", owned="$owned:a")
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §9", tags=TAGS + ("offsets",), exact=True)
def m_classic_offsets(s):
    """A classic member's commits and fetches: generation errors instead of epoch errors, old versions allowed."""
    s.join848("a", [K0])
    enter(s, "k")
    s.heartbeat848("a")
    s.heartbeat848("a", owned="$owned:a")
    enter(s, "k")
    sync(s, "k")
    s.commit("k", {(K0, 2): 1}, id="$cid:k", v=5, expect=0)
    s.commit("k", {(K0, 2): 2}, id="$cid:k", v=9, expect=0)
    s.commit("k", {(K0, 2): 2}, id="$cid:k", gen="$gen:k+1", expect=22)
    s.commit("k", {(K0, 0): 2}, id="$cid:k", gen="$gen:k-1", expect=22)
    s.commit("k", {(K0, 2): 2}, id="$cid:k", gen=-1, expect=22)
    s.fetch("k", [(K0, 2)], id="$cid:k", epoch="$gen:k", expect=0)
    s.fetch("k", [(K0, 2)], id="$cid:k", epoch="$gen:k-1", expect=22)
    s.fetch("k", [(K0, 2)], v=5, expect=0)


@scenario("consumer §9", tags=TAGS, exact=True)
def m_leave_batch(s):
    """LeaveGroup removes members of either protocol, by id and by instance; one new epoch for all."""
    s.join848("a", [K0])
    s.join848("b", [K0], instance="ib")
    enter(s, "k")
    enter(s, "m", instance="im", id="")
    s.join848("c", [K0])
    s.describe848(expect={"groups[0].group_epoch": 6})
    s.leave("x", members=[("$cid:a", None), ("", "ib"), ("$cid:k", None), ("nobody", None), ("nobody", "im"), ("", "nobody")])
    s.describe848(expect={"groups[0].group_epoch": 7, "#groups[0].members": 2})
    s.leave("x", members=[("nobody", None)])
    s.describe848(expect={"groups[0].group_epoch": 7})
    s.leave("x", v=0, id="$cid:c", expect=0)
    s.describe848()
    s.describe(v=5)


@scenario("consumer §9", tags=TAGS, exact=True)
def m_native_takes_classic_id(s):
    """A member id changes its protocol: by ConsumerGroupHeartbeat it becomes native, by JoinGroup classic again."""
    s.join848("a", [K0])
    enter(s, "k")
    s.heartbeat848("a")
    s.heartbeat848("a", owned="$owned:a")
    s.heartbeat848("k", epoch="$gen:k", expect=0)
    beat(s, "k", 25)
    s.describe848()
    s.join848("k", [K0], expect=0)
    s.describe848()
    enter(s, "k", expect=0)
    s.heartbeat848("a")
    s.describe848()


@scenario("consumer §9", tags=TAGS + ("static",), exact=True)
def m_static_native_replaced_by_classic(s):
    """A static native member that went away is replaced by JoinGroup while another native member stays: still a consumer group."""
    s.join848("a", [K0])
    s.join848("b", [K0], instance="ib")
    s.heartbeat848("a")
    s.heartbeat848("a", owned="$owned:a")
    s.heartbeat848("b", instance="ib")
    s.join("k", instance="ib", protocols=[("range", metadata([K0]))])
    s.heartbeat848("b", epoch=-2, instance="ib")
    s.join("k", instance="ib", protocols=[("range", metadata([K0]))])
    s.sync("k", instance="ib")
    s.beat("k", instance="ib")
    s.describe848()
    s.join("m", instance="ib", protocols=[("range", metadata([K0]))])
    s.beat("k", instance="ib", expect=82)
    s.sync("m", instance="ib")
    s.describe848()


@scenario("consumer §9", profile="alt", tags=TAGS, exact=True)
def m_classic_capacity(s):
    """group.consumer.max.size counts classic members too."""
    s.join848("a", [K0])
    enter(s, "k", expect=0)
    enter(s, "m", expect=0)
    enter(s, "n", expect={"error_code": 81, "member_id": ""})
    s.join("n", expect=81)
    enter(s, "k", expect=0)
