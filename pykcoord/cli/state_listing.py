"""The listings of `log state`: groups, the members of one, and offsets."""

from __future__ import annotations

from typing import Any

from pykcoord.cli.listing import Listing, print_listings
from pykcoord.cli.plain import time_text
from pykcoord.cli.state import State
from pykcoord.ranges import ranges

__all__ = ["print_state"]


def print_state(found: State, members: bool) -> None:
    """To stdout; with the members of the groups if asked for."""
    listings = [_groups_listing(found)]
    if members:
        for group_id, group in found["groups"].items():
            listings += _listings_of(group, found["reconciliation"].get(group_id))
    print_listings([*listings, _offsets_listing(found)])


def _groups_listing(found: State) -> Listing:
    rows = []
    for group_id, group in found["groups"].items():
        interpreted = group.get("interpreted", True)
        count = str(len(group["members"])) if interpreted else "not interpreted"
        rows.append(
            [
                group_id,
                group["type"],
                group.get("state", ""),
                str(group.get("generation", group.get("groupEpoch", ""))),
                group.get("protocol") or group.get("assignorName", ""),
                count,
            ]
        )
    return Listing("Groups", ("group", "type", "state", "generation", "protocol", "members"), rows)


def _listings_of(group: dict[str, Any], reconciling: dict[str, Any] | None) -> list[Listing]:
    """The members of a group, and what else belongs to it."""
    if reconciling is None:
        return [_members_listing(group)]
    listings = [_consumers_listing(group, reconciling)]
    if expressions := reconciling["regularExpressions"]:
        rows = [
            [expression, ", ".join(of["topics"] or []), time_text(of["timestamp"])]
            for expression, of in expressions.items()
        ]
        columns = ("regular expression", "topics", "looked up")
        listings.append(Listing("Regular expressions", columns, rows))
    return listings


def _consumers_listing(group: dict[str, Any], reconciling: dict[str, Any]) -> Listing:
    rows = []
    for member in group["members"]:
        step = reconciling["members"][member["memberId"]]
        subscribes = [*member["subscribedTopicNames"], member["subscribedTopicRegex"]]
        rows.append(
            [
                member["memberId"],
                member["instanceId"] or "",
                member["clientId"],
                member["clientHost"],
                ("classic", "consumer")[member["memberType"]],
                ", ".join(filter(None, subscribes)),
                str(member["memberEpoch"]),
                step["state"],
                _partitions(member["assignment"]["topicPartitions"]),
                _partitions(step["partitionsPendingRevocation"]),
                _partitions(member["targetAssignment"]["topicPartitions"]),
            ]
        )
    columns = (
        "member", "instance", "client", "host", "protocol", "subscribes", "epoch", "state",
        "assignment", "to revoke", "target",
    )  # fmt: skip
    title = f"Members (target of epoch {group['assignmentEpoch']})"
    return Listing(title, columns, rows)


def _partitions(topics: list[dict[str, Any]]) -> str:
    """By name, or by id where there is no name."""
    return ", ".join(
        f"{topic['topicName'] or topic['topicId']} {ranges(topic['partitions'])}"
        for topic in topics
    )


def _members_listing(group: dict[str, Any]) -> Listing:
    rows = []
    for member in group.get("members", []):
        partitions = member.get("assignment", {}).get("partitions", {})
        owned = [f"{topic} {ranges(of)}" for topic, of in partitions.items()]
        leads = " (leader)" if member["memberId"] == group["leader"] else ""
        rows.append(
            [
                member["memberId"] + leads,
                member["groupInstanceId"] or "",
                member["clientId"],
                member["clientHost"],
                f"{member['sessionTimeoutMs']} ms",
                ", ".join(owned) or member["memberAssignment"],
            ]
        )
    columns = ("member", "instance", "client", "host", "session", "assignment")
    return Listing("Members", columns, rows)


def _offsets_listing(found: State) -> Listing:
    rows = []
    for group_id, topics in found["offsets"].items():
        for topic, partitions in topics.items():
            for partition, committed in partitions.items():
                unstable = found["unstable"].get(group_id, {}).get(topic, [])
                pending = " (a transaction is pending)" if int(partition) in unstable else ""
                epoch = committed["leaderEpoch"]
                rows.append(
                    [
                        group_id,
                        topic,
                        partition,
                        f"{committed['offset']}{pending}",
                        "" if epoch < 0 else str(epoch),
                        committed["metadata"],
                    ]
                )
    columns = ("group", "topic", "partition", "offset", "leader epoch", "metadata")
    return Listing("Offsets", columns, rows)
