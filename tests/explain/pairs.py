"""Pairs of causes that look alike from outside, each with what the report must say of it.

A case settles a group, lets something happen to it in virtual time, and names the causes of the
rebalances that come of it, words that the story must have, and the patterns: these and no others.
"""

from __future__ import annotations

from pykcoord.virtual import Client

from .acts import (
    POLL,
    SECOND,
    Case,
    admin_removes,
    another,
    asks_again,
    classic_group,
    commits_meanwhile,
    delete,
    downgrade,
    each,
    expire,
    fail_over,
    flap,
    late,
    native_back,
    native_group,
    native_static,
    native_twice,
    never_joined,
    never_rejoins,
    rejoins_slowly,
    restart,
    restart_static,
    revokes,
    roll,
    slow_leader,
    static_group,
    twice,
    upgrade,
    waits,
    zombie,
)

SLOW, SHORT = {"slow_poll_loop"}, {"session_timeout_too_short"}
NATIVE = {"group_consumer_session_timeout_ms": 45_000}
FULL = {"group_max_size": 3}

PAIRS: dict[str, tuple[Case, Case]] = {
    "killed or paused": (
        Case(classic_group(lambda w, m: m[2].die()), ["session_expired"], "nothing was heard"),
        Case(
            classic_group(lambda w, m: m[2].pause(50 * SECOND)),
            ["session_expired", "member_joined"],
            "is back",
            SHORT,
        ),
    ),
    "left with a reason or without": (
        Case(
            classic_group(lambda w, m: m[2].leave("scaled in")), ["left"], 'It says: "scaled in".'
        ),
        Case(classic_group(lambda w, m: m[2].leave()), ["left"], "left and gave no reason."),
    ),
    "left by a slow poll loop or on purpose": (
        Case(classic_group(lambda w, m: m[2].leave(POLL)), ["left"], "did not call poll()", SLOW),
        Case(
            classic_group(lambda w, m: m[2].leave("the consumer is being closed")),
            ["left"],
            'left. It says: "the consumer is being closed".',
        ),
    ),
    "removed by an administrator or left": (
        Case(
            static_group(admin_removes),
            ["removed_by_admin"],
            "An administrator removed instance i3",
        ),
        Case(
            static_group(lambda w, m: m[2].leave("bye")), ["left"], "Member instance i3 at 10.0.0.3"
        ),
    ),
    "a new member or one that is back": (
        Case(classic_group(lambda w, m: another(w)), ["member_joined"], "Member other-"),
        Case(
            classic_group(lambda w, m: restart(m[2], 5 * SECOND)),
            ["left", "member_joined"],
            "app-3 is back, 5.0 s after it went",
        ),
    ),
    "died, or died while the coordinator changed": (
        Case(classic_group(lambda w, m: m[1].die()), ["session_expired"], "Member app-2-"),
        Case(fail_over, ["session_expired"], "The coordinator had loaded the group"),
    ),
    "the leader asks, or asks because a topic grew": (
        Case(
            classic_group(lambda w, m: [one.rejoin("manual") for one in m]),
            ["leader_rejoined"],
            'asked for another assignment. It says: "manual"',
        ),
        Case(
            classic_group(lambda w, m: (w.grow("orders", 9), [one.rejoin() for one in m])),
            ["topics_changed"],
            "after topic orders grew from 6 to 9 partitions",
        ),
    ),
    "the leader asks once, or again and again": (
        Case(
            classic_group(lambda w, m: [one.rejoin() for one in m]),
            ["leader_rejoined"],
            "asked for another assignment",
        ),
        Case(
            classic_group(asks_again),
            ["leader_rejoined"] * 6,
            "asked for another assignment",
            {"leader_asks_again"},
        ),
    ),
    "a topic was created or grew": (
        Case(
            classic_group(
                lambda w, m: (w.grow("bills", 2), [one.rejoin() for one in m]),
                topics=("orders", "bills"),
            ),
            ["topics_changed"],
            "topic bills was created with 2 partitions",
        ),
        Case(
            classic_group(lambda w, m: (w.grow("orders", 7), [one.rejoin() for one in m])),
            ["topics_changed"],
            "topic orders grew from 6 to 7 partitions",
        ),
    ),
    "another subscription or the same again": (
        Case(
            classic_group(lambda w, m: m[1].subscribe("orders", "bills")),
            ["metadata_changed"],
            "changed its subscription: bills.",
        ),
        Case(
            classic_group(lambda w, m: [one.rejoin("again") for one in m]),
            ["leader_rejoined"],
            "The leader, app-",
        ),
    ),
    "subscribes to more or to less": (
        Case(
            classic_group(lambda w, m: m[1].subscribe("orders", "bills", "mail")),
            ["metadata_changed"],
            "bills and mail",
        ),
        Case(
            classic_group(lambda w, m: m[1].subscribe("bills")),
            ["metadata_changed"],
            "bills and no longer orders",
        ),
    ),
    "a static member restarts, or a dynamic one": (
        Case(static_group(lambda w, m: restart_static(m[1])), [], ""),
        Case(
            classic_group(lambda w, m: restart(m[1])),
            ["left", "member_joined"],
            "app-2 is back, 2.0 s after it went",
        ),
    ),
    "a static member restarts, or its id is used twice": (
        Case(static_group(lambda w, m: restart_static(m[2])), [], ""),
        Case(static_group(twice), [], "FENCED_INSTANCE_ID", {"instance_id_used_twice"}),
    ),
    "joins late or not at all": (
        Case(classic_group(rejoins_slowly), ["member_joined"], "All waited 8.0 s for app-3-"),
        Case(
            classic_group(never_rejoins),
            ["member_joined"],
            "which did not join again and was removed",
            SLOW,
        ),
    ),
    "waits for the leader or for a member": (
        Case(
            classic_group(slow_leader), ["member_joined"], "took 9.0 s to assign", {"slow_leader"}
        ),
        Case(classic_group(rejoins_slowly), ["member_joined"], "All waited"),
    ),
    "never syncs, or dies later": (
        Case(
            classic_group(
                lambda w, m: setattr(
                    another(w, instance="x", rebalance_ms=20_000, session_ms=60_000),
                    "never_syncs",
                    True,
                ),
                rebalance_ms=20_000,
            ),
            ["member_joined", "sync_expired"],
            "sent no SyncGroup",
            {"never_synced"},
        ),
        Case(
            classic_group(lambda w, m: w.at(20 * SECOND, another(w, instance="x").die)),
            ["member_joined", "session_expired"],
            "instance x at 10.0.0.9 was removed: nothing was heard",
        ),
    ),
    "no common assignor, or the group is full": (
        Case(
            classic_group(lambda w, m: another(w, protocols=("sticky",))),
            [],
            "INCONSISTENT_GROUP_PROTOCOL",
            {"protocols_differ"},
        ),
        Case(
            classic_group(lambda w, m: another(w)),
            [],
            "GROUP_MAX_SIZE_REACHED",
            {"group_full"},
            settings=FULL,
        ),
    ),
    "a session timeout out of bounds, or no common assignor": (
        Case(
            classic_group(lambda w, m: another(w, session_ms=10)),
            [],
            "INVALID_SESSION_TIMEOUT",
            {"session_timeout_out_of_bounds"},
        ),
        Case(
            classic_group(lambda w, m: another(w, protocols=("roundrobin",))),
            [],
            "JoinGroup of",
            {"protocols_differ"},
        ),
    ),
    "more members than partitions, or as many": (
        Case(
            classic_group(lambda w, m: another(w)),
            ["member_joined"],
            "0 of 3 partitions moved",
            {"more_members_than_partitions"},
            partitions=3,
        ),
        Case(classic_group(lambda w, m: another(w)), ["member_joined"], "4 members", partitions=4),
    ),
    "one comes and goes, or all restart": (
        Case(
            classic_group(flap),
            ["left", "member_joined"] * 4,
            "app-3 is back",
            {"flapping_member"},
        ),
        Case(
            classic_group(roll),
            ["left", "member_joined"] * 3,
            "app-1 is back",
            {"rolling_deploy"},
        ),
    ),
    "all restart, with instance ids or without": (
        Case(static_group(roll), [], ""),
        Case(
            classic_group(roll),
            ["left", "member_joined"] * 3,
            "app-3 is back",
            {"rolling_deploy"},
        ),
    ),
    "waited for once, or always": (
        Case(classic_group(waits(1)), ["member_joined"], "All waited 3.0 s for app-2-"),
        Case(
            classic_group(waits(4)),
            ["member_joined"] * 4,
            "All waited 3.0 s for app-2-",
            {"always_waited_for"},
            partitions=12,
        ),
    ),
    "commits after it went, or during a rebalance": (
        Case(classic_group(zombie), ["left"], "OffsetCommit of", {"commits_refused"}),
        Case(classic_group(commits_meanwhile), ["left"], "1 commit was refused"),
    ),
    "deleted or expired": (
        Case(delete, ["left"], "deleted by request"),
        Case(
            expire,
            ["left"],
            "its last offset had expired",
            settings={"offsets_retention_minutes": 1},
        ),
    ),
    "consumer protocol: killed or left": (
        Case(native_group(lambda w, m: m[2].die()), ["session_expired"], "nothing was heard"),
        Case(native_group(lambda w, m: m[2].leave()), ["left"], "app-3 at 10.0.0.3 left"),
    ),
    "consumer protocol: gives up late or not at all": (
        Case(native_group(revokes(8 * SECOND)), ["member_joined"], "had given up"),
        Case(
            native_group(revokes(10**9), rebalance_ms=20_000),
            ["member_joined", "rebalance_timeout"],
            "did not give up its partitions",
            SLOW,
        ),
    ),
    "consumer protocol: a topic grew or a subscription changed": (
        Case(
            native_group(lambda w, m: w.grow("orders", 9)),
            ["topics_changed"],
            "Topics changed: topic orders grew from 6 to 9 partitions.",
        ),
        Case(
            native_group(lambda w, m: m[1].subscribe("orders", "bills")),
            ["subscription_changed"],
            "Member app-2 at 10.0.0.2 changed its subscription.",
        ),
    ),
    "consumer protocol: paused or killed": (
        Case(
            native_group(lambda w, m: m[1].pause(70 * SECOND)),
            ["session_expired", "member_joined"],
            "app-2 is back",
            SHORT,
        ),
        Case(native_group(lambda w, m: m[1].die()), ["session_expired"], "nothing was heard"),
    ),
    "consumer protocol: an instance id twice, or back": (
        Case(native_static(native_twice), [], "UNRELEASED_INSTANCE_ID", {"instance_id_used_twice"}),
        Case(native_static(native_back), [], ""),
    ),
    "upgraded or downgraded": (
        Case(upgrade, ["member_joined", "session_expired"], "is a consumer group now"),
        Case(downgrade, ["downgraded"], "is a classic group now"),
    ),
    "many die, or many leave": (
        Case(
            classic_group(lambda w, m: each(m[:3], Client.die), 5),
            ["session_expired"] * 3,
            "nothing was heard",
            {"members_die"},
        ),
        Case(
            classic_group(lambda w, m: each(m[:3], lambda one: one.leave("scaled in")), 5),
            ["left"] * 3,
            "scaled in",
        ),
    ),
    "silent for almost, or for all of its session": (
        Case(classic_group(late), [], "shortly before its session timeout"),
        Case(
            classic_group(lambda w, m: m[2].die()), ["session_expired"], "30 s, its session timeout"
        ),
    ),
    "an id that never joins, or a member that dies": (
        Case(
            classic_group(never_joined, 1),
            ["leader_rejoined"],
            "asked for a member id and never joined",
        ),
        Case(classic_group(lambda w, m: m[1].die(), 2), ["session_expired"], "1 member"),
    ),
}
