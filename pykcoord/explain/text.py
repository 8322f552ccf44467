"""How things are named and counted in sentences: safely, whatever clients call themselves."""

from __future__ import annotations

import re
import unicodedata

from pykcoord.events import EventMember

__all__ = ["client_text", "counted", "duration", "listed", "member_text", "safe", "who"]

_MOST = 120
_UUID_LENGTH = 36
# Ids of members of the consumer protocol, which say nothing of the client.
_BY_CHANCE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-Za-z0-9+/_-]{22}(==)?")


def safe(text: str) -> str:
    """A text from a client on one line: control characters, marks that turn the direction of
    writing, and other invisible ones are written as escapes; what is long is cut."""
    shown = "".join(_escaped(character) for character in text[: 2 * _MOST])
    return shown if len(shown) <= _MOST else shown[: _MOST - 1] + "…"


def _escaped(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if unicodedata.category(character)[0] == "C" or character in "\u2028\u2029":
        code = ord(character)
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return character


def counted(number: int, name: str) -> str:
    """`1 member`, `2 members`, with commas in large numbers."""
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def duration(milliseconds: float) -> str:
    """`0.25 s`, `3.2 s`, `45 s`, `12 min`, `3.5 h`, `2 days`."""
    if not milliseconds:
        return "0 s"
    seconds = milliseconds / 1000
    if seconds < 0.995:
        return f"{seconds:.2f} s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:.0f} days"


def listed(names: list[str], most: int = 3) -> str:
    """`a, b and c`, or `a, b, c and 5 more`."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else "nobody"


def who(member: EventMember) -> str:
    """Who a member is beyond one life of it: its instance, or its client at its host."""
    if member.group_instance_id:
        return f"instance {member.group_instance_id}"
    if member.client_id:
        return f"{member.client_id} {member.client_host}"
    return member.member_id[: -_UUID_LENGTH - 1] or member.member_id


def client_text(member: EventMember | None) -> str:
    """The client or instance of a member, which outlives its member id, and its host."""
    if member is None or member.group_instance_id or not member.client_id:
        return member_text(member)
    host = member.client_host.removeprefix("/")
    return f"client {safe(member.client_id)}" + (f" at {safe(host)}" if host else "")


def member_text(member: EventMember | None) -> str:
    """A member as a sentence names it: its instance id or the head of its id, and its host."""
    if member is None:
        return "a member that is not known"
    host = member.client_host.removeprefix("/")
    at = f" at {safe(host)}" if host else ""
    if member.group_instance_id:
        return f"instance {safe(member.group_instance_id)}{at}"
    if not member.member_id:
        return f"client {safe(member.client_id)}{at}"
    name = short(member.member_id)
    if member.client_id and _BY_CHANCE.fullmatch(member.member_id):
        name = f"{member.client_id}-{name[:8]}"
    return f"{safe(name)}{at}"


def short(member_id: str) -> str:
    """A member id with the first eight characters of its UUID only."""
    head, tail = member_id[:-_UUID_LENGTH], member_id[-_UUID_LENGTH:]
    return head + tail[:8] if tail.count("-") == 4 else member_id
