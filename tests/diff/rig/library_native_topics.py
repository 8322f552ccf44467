"""KIP-848 in depth: subscriptions, topics that come and go, regular expressions (consumer-protocol.md)."""

from library import scenario
from library_native import GIVEN, TAGS, settle
from scenario import D0, K0, K1, LONG


# -- subscriptions and topics -------------------------------------------------------------------------------------------------


@scenario("consumer §5", tags=TAGS, exact=True)
def n_topic_dropped(s):
    """An unsubscribed topic is to be revoked at once; reported as gone already, it is gone."""
    s.join848("a", [K0, K1])
    s.heartbeat848("a", topics=[K0], expect={"member_epoch": 2, f"#{GIVEN}": 1})
    s.describe848(expect={"groups[0].group_state": "Reconciling"})
    s.heartbeat848("a", owned="$owned:a", expect={"member_epoch": 3})
    s.heartbeat848("a", topics=[K0, K1], owned="$owned:a", expect={"member_epoch": 4, f"#{GIVEN}": 2})
    s.heartbeat848("a", topics=[K1], owned=[], expect={"member_epoch": 5, f"#{GIVEN}": 1})
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §5", tags=TAGS, exact=True)
def n_subscribed_to_nothing(s):
    """No topics: a member without partitions, and back."""
    s.join848("a", [], expect={"member_epoch": 1, f"#{GIVEN}": 0})
    s.describe848(expect={"groups[0].group_state": "Stable", "groups[0].group_epoch": 1, "groups[0].assignment_epoch": 1})
    s.heartbeat848("a", topics=[K0], expect={"member_epoch": 2})
    s.heartbeat848("a", topics=[], expect={"member_epoch": 2, f"#{GIVEN}": 0})
    s.heartbeat848("a", owned=[], expect={"member_epoch": 3})
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §4", tags=TAGS, exact=True)
def n_what_does_not_bump(s):
    """Rack, rebalance timeout, assignor, the same topics in another order: no new epoch."""
    s.join848("a", [K0, K1])
    s.heartbeat848("a", rack="r2", expect={"member_epoch": 2, "assignment": None})
    s.heartbeat848("a", rebalance=LONG + 1, expect={"member_epoch": 2})
    s.heartbeat848("a", topics=[K1, K0], expect={"member_epoch": 2})
    s.heartbeat848("a", topics=[K1, K0, K1], expect={"member_epoch": 2})
    s.heartbeat848("a", client_id="other", expect={"member_epoch": 2})
    s.describe848(
        expect={"groups[0].group_epoch": 2, "groups[0].members[0].rack_id": "r2", "groups[0].members[0].client_id": "other"}
    )


@scenario("consumer §4", tags=TAGS + ("topics",), exact=True)
def n_topic_comes_into_being(s):
    """A subscribed topic that is created, grown, deleted and made again: seen by the next heartbeat of anybody."""
    s.join848("a", [K0, D0], expect={"member_epoch": 2, f"#{GIVEN}": 1})
    s.topic("create", "d0", 2)
    s.describe848(expect={"groups[0].group_epoch": 2})
    s.heartbeat848("a", expect={"member_epoch": 3, f"#{GIVEN}": 2})
    s.topic("grow", "d0", 3)
    s.heartbeat848("a", expect={"member_epoch": 4, f"#{GIVEN}": 2})
    s.topic("delete", "d0")
    s.describe848()
    s.heartbeat848("a")
    s.heartbeat848("a", owned="$owned:a")
    s.topic("create", "d0", 1)
    s.heartbeat848("a", owned="$owned:a")
    s.describe848()


@scenario("consumer §4", tags=TAGS + ("topics",), exact=True)
def n_topic_deleted_from_under_two(s):
    """A deleted topic: its partitions need no acknowledgement of anybody but their owner; commits of it are refused."""
    s.topic("create", "d0", 4)
    s.join848("a", [D0, K1])
    s.join848("b", [D0, K1])
    settle(s, "a", "b")
    s.commit("a", {(D0, 0): 5, (K1, 0): 6}, gen="$epoch:a", id="$cid:a")
    s.topic("delete", "d0")
    s.commit("a", {(D0, 0): 7, (K1, 0): 8}, gen="$epoch:a", id="$cid:a")
    s.fetch("admin", None, v=9)
    s.heartbeat848("b")
    s.heartbeat848("a")
    settle(s, "a", "b")
    s.describe848(expect={"groups[0].group_state": "Stable"})
    s.fetch("admin", [(D0, 0), (K1, 0)], v=10)


@scenario("offsets §4", tags=TAGS + ("topics", "offsets"), exact=True)
def n_offsets_of_topic_made_again(s):
    """Offsets of a topic that was deleted and created again do not come back."""
    s.topic("create", "d0", 2)
    s.join848("a", [D0])
    s.commit("a", {(D0, 0): 5}, gen="$epoch:a", id="$cid:a", expect=0)
    s.topic("delete", "d0")
    s.topic("create", "d0", 2)
    s.heartbeat848("a", owned=[])
    s.fetch("admin", [(D0, 0)], v=10)
    s.fetch("admin", [(D0, 0)], v=9)
    s.commit("a", {(D0, 0): 6}, gen="$epoch:a", id="$cid:a", expect=0)
    s.fetch("admin", None, v=10, expect=0)


# -- regular expressions ------------------------------------------------------------------------------------------------------

ALL_K = r"$re:diff-k[01]\..*"
ONLY_K0 = r"$re:diff-k0\..*"
OWN = r"$re:diff-xd0\.%.*"


def enter_regex(s, who, regex, topics=None, expect=None, **options):
    return s.heartbeat848(who, epoch=0, rebalance=LONG, owned=[], topics=topics, regex=regex, v=1, expect=expect, **options)


@scenario("consumer §4.2", tags=TAGS + ("regex",), exact=True)
def n_regex_resolved(s):
    """Epoch 1 and nothing at first; the next heartbeat brings the topics."""
    enter_regex(s, "a", ALL_K, expect={"member_epoch": 1, f"#{GIVEN}": 0})
    s.describe848(expect={"groups[0].group_state": "Assigning", "groups[0].group_epoch": 2})
    s.heartbeat848("a", v=1, expect={"member_epoch": 2, f"#{GIVEN}": 2})
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §4.2", tags=TAGS + ("regex",), exact=True)
def n_regex_shared(s):
    """The second member with the same expression is served at once: it is resolved already."""
    enter_regex(s, "a", ALL_K)
    s.heartbeat848("a", v=1)
    enter_regex(s, "b", ALL_K, expect={"member_epoch": 3})
    settle(s, "a", "b")
    s.describe848(expect={"groups[0].group_state": "Stable", "groups[0].group_epoch": 3})


@scenario("consumer §4.2", tags=TAGS + ("regex",), exact=True)
def n_regex_to_names_and_back(s):
    """From an expression to names, and to another expression: with none left, the recent look does not count."""
    enter_regex(s, "a", ALL_K)
    s.heartbeat848("a", v=1)
    s.heartbeat848("a", topics=[K0], regex="", v=1, expect={"error_code": 0})
    s.heartbeat848("a", owned="$owned:a")
    s.describe848(expect={"groups[0].members[0].subscribed_topic_regex": ""})
    s.heartbeat848("a", topics=[], regex=ONLY_K0, v=1, expect={"member_epoch": 3, f"#{GIVEN}": 0})
    s.heartbeat848("a", owned="$owned:a", expect={"member_epoch": 5, f"#{GIVEN}": 1})
    s.heartbeat848("a", owned="$owned:a")
    s.describe848(expect={"groups[0].group_state": "Stable"})


@scenario("consumer §4.2", tags=TAGS + ("regex", "timer"), exact=True)
def n_regex_second_waits_ten_seconds(s):
    """A second expression in the group is looked up 10 s after the first, by the next heartbeat."""
    enter_regex(s, "a", ONLY_K0)
    s.heartbeat848("a", v=1)
    enter_regex(s, "b", r"$re:diff-k1\..*", expect={"error_code": 0, "member_epoch": 2, f"#{GIVEN}": 0})
    s.heartbeat848("b", v=1, expect={"member_epoch": 2, "assignment": None})
    s.describe848()
    s.sleep(10.6)
    s.heartbeat848("b", v=1)
    s.heartbeat848("b", v=1)
    s.describe848()


@scenario("consumer §4.2", tags=TAGS + ("regex", "topics", "timer"), exact=True)
def n_regex_new_topic(s):
    """A topic that matches and is created later: noticed 10 s after the last look."""
    enter_regex(s, "a", OWN)
    s.heartbeat848("a", v=1, expect={"member_epoch": 1})
    s.topic("create", "d0", 2)
    s.heartbeat848("a", v=1, expect={"member_epoch": 1, "assignment": None})
    s.sleep(10.6)
    s.heartbeat848("a", v=1)
    s.heartbeat848("a", v=1, expect={"error_code": 0, f"#{GIVEN}": 1})
    s.describe848()


@scenario("consumer §4.2", tags=TAGS + ("regex", "topics"), exact=True)
def n_regex_topic_deleted(s):
    """A matched topic that goes away."""
    s.topic("create", "d0", 2)
    enter_regex(s, "a", OWN, topics=[K0])
    s.heartbeat848("a", v=1, expect={f"#{GIVEN}": 2})
    s.topic("delete", "d0")
    s.heartbeat848("a", v=1)
    s.heartbeat848("a", owned="$owned:a")
    s.describe848()


@scenario("consumer §4.2", tags=TAGS + ("regex",), exact=True)
def n_regex_with_names(s):
    """The union of names and expression; an empty expression counts as a subscription too."""
    enter_regex(s, "a", ONLY_K0, topics=[K1], expect={"member_epoch": 2, f"#{GIVEN}": 1})
    s.heartbeat848("a", expect={"member_epoch": 3, f"#{GIVEN}": 2})
    enter_regex(s, "b", "", expect={"error_code": 0, f"#{GIVEN}": 0})
    s.describe848()


@scenario("consumer §2", tags=TAGS + ("regex",), exact=True)
def n_regex_invalid(s):
    """INVALID_REGULAR_EXPRESSION leaves everything as it was; nobody matches what matches nothing."""
    enter_regex(s, "a", "(", expect=128)
    s.describe848(expect=69)
    s.join848("a", [K0])
    s.heartbeat848("a", regex="[", v=1, expect=128)
    s.heartbeat848("a", regex=r"\p{Nonsense}", v=1, expect=128)
    s.heartbeat848("a", regex="(?=x)", v=1, expect=128)  # lookahead: not in RE2
    s.heartbeat848("a", regex="(a)\\1", v=1, expect=128)  # back reference: not in RE2
    s.describe848(expect={"groups[0].group_epoch": 2, "groups[0].members[0].subscribed_topic_regex": ""})
    s.heartbeat848("a", regex="nothing-like-this", v=1, expect={"error_code": 0, "member_epoch": 2})
    s.heartbeat848("a", v=1)
    s.describe848()


@scenario("consumer §4.2", tags=TAGS + ("regex",), exact=True)
def n_regex_whole_name(s):
    """An expression matches whole names, not parts of them."""
    enter_regex(s, "a", r"$re:diff-k0")
    s.heartbeat848("a", v=1, expect={"error_code": 0, "assignment": None})
    enter_regex(s, "b", r"$re:iff-k0.*", group="h")
    s.heartbeat848("b", v=1, group="h", expect={"error_code": 0, "assignment": None})
    enter_regex(s, "c", r"$re:(diff-k0\.\d+|nothing)", group="i")
    s.heartbeat848("c", v=1, group="i", expect={"error_code": 0, f"#{GIVEN}": 1})


@scenario("consumer §7", tags=TAGS + ("regex",), exact=True)
def n_regex_last_leaves(s):
    """Who leaves takes its expression along; the next one with it starts over."""
    s.join848("b", [K1])
    enter_regex(s, "a", ONLY_K0)
    s.heartbeat848("a", v=1)
    settle(s, "a", "b")
    s.heartbeat848("a", epoch=-1)
    s.heartbeat848("b", owned="$owned:b")
    enter_regex(s, "c", ONLY_K0)
    settle(s, "c", "b")
    s.describe848()


@scenario("offsets §5", tags=TAGS + ("regex", "offsets"), exact=True)
def n_regex_subscription_protects_offsets(s):
    """A topic matched by an expression is subscribed to: its offsets cannot be deleted."""
    enter_regex(s, "a", ONLY_K0)
    s.heartbeat848("a", v=1)
    s.commit("a", {(K0, 0): 1, (K1, 0): 2}, gen="$epoch:a", id="$cid:a", expect=0)
    s.delete_offsets([(K0, 0)], expect=86)
    s.delete_offsets([(K1, 0)], expect=0)
    s.fetch("admin", None, expect=0)
