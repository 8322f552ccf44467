"""Write the parts of docs/ that follow from the code: two pages, and the matrix of crash tests.

`make docs` runs it; a test compares the pages with what it would write. `pages()` touches no file.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pykcoord.config import SETTINGS, Setting
from pykcoord.server.api import registry

ROOT = Path(__file__).parent.parent

_CORE_APIS = {
    "OffsetCommit": "Commits offsets, of a member or without one (simple groups).",
    "OffsetFetch": "Gives committed offsets, of one group or many (v8+), by topic id from v10.",
    "JoinGroup": "Joins, rejoins, and starts the rebalance.",
    "Heartbeat": "Keeps a session alive, and says when a rebalance has begun.",
    "LeaveGroup": "Leaves, alone or for others (v3+).",
    "SyncGroup": "Takes the leader's assignments, and gives each member its own.",
    "DescribeGroups": "Gives a group's state and members.",
    "ListGroups": "Lists groups, filtered by state (v4+) and type (v5+).",
    "DeleteGroups": "Deletes empty groups with their offsets.",
    "OffsetDelete": "Deletes offsets of topics without subscribers.",
    "ConsumerGroupHeartbeat": "Joins, keeps, moves and leaves in a consumer group (KIP-848).",
    "ConsumerGroupDescribe": "Gives a consumer group's members, epochs and assignments.",
}
_SPEC = re.compile(r"^    (\w+) = (\d+), (\d+) to (\d+), flexible", re.MULTILINE)


def pages() -> dict[str, str]:
    """Name in docs/ to text."""
    return {
        "apis.md": _apis(),
        "configuration.md": _configuration(),
        "crash-testing.md": _crash_testing(),
    }


def _apis() -> str:
    header = (ROOT / "native/wire/src/header.rs").read_text()
    rows = [
        (int(key), name, _versions(int(low), int(high)), "core", _CORE_APIS[name])
        for name, key, low, high in _SPEC.findall(header)
    ]
    for api in registry.APIS.values():
        low = api.minimum if api.advertised_minimum is None else api.advertised_minimum
        about = _about(api.answer.__module__)
        rows.append((api.key, api.name, _versions(low, api.maximum), "server", about))
    lines = [f"| {' | '.join(map(str, row))} |" for row in sorted(rows)]
    return _page(
        "APIs and versions served",
        """ApiVersions tells clients exactly this. *core*: answered by the native group coordinator,
from its log; *server*: answered by the server from its topic catalogue. A request for anything
else closes the connection with one line of log; ApiVersions in a version that is too new is
answered as Kafka does, so that the client asks again.

Not served: the APIs of share groups and streams groups, and those of transactions, SASL and
quotas. Fetch brings no records.""",
        ["| key | API | versions | by | what it does here |", "|---|---|---|---|---|", *lines],
    )


def _about(module: str) -> str:
    """What the first line of an API's module says of it."""
    path = ROOT / Path(*module.split(".")).with_suffix(".py")
    first = path.read_text().partition('"""')[2].partition('"""')[0]
    sentence = " ".join(first.split("\n\n")[0].split()).partition(": ")[2]
    return sentence[:1].upper() + sentence[1:]


def _versions(low: int, high: int) -> str:
    return f"{low}-{high}" if high > low else f"{low}"


def _configuration() -> str:
    lines = [_setting(setting) for setting in SETTINGS.values()]
    return _page(
        "Configuration",
        """Names, units, defaults and bounds are those of Kafka 4.3, except where *pykcoord's own*
is said. Give them in a file (`--config server.properties`, in Kafka's syntax) or one by one
(`--set name=value`, which wins). A name that Kafka has and pykcoord does not need is accepted with
a warning; one that neither has is refused with the nearest known name.

Not here: the options of `pykcoord serve` (`pykcoord serve --help`), and changes without a restart,
which are not supported.""",
        ["| name | default | bounds | unit | what it is for |", "|---|---|---|---|---|", *lines],
    )


def _setting(setting: Setting) -> str:
    smallest = -(2**63) if setting.type == "long" else -(2**31)
    largest = sys.float_info.max if setting.type == "double" else -smallest - 1
    if setting.type == "list":
        bounds = "of " + ", ".join(f"`{choice}`" for choice in setting.choices)
        default = f"`{setting.default}`"
    elif setting.type in ("string", "boolean"):
        bounds = " or ".join(f"`{choice}`" for choice in setting.choices)
        text = str(setting.default)
        default = f"`{text.lower() if setting.type == 'boolean' else text}`" if text else ""
    else:
        bounds = "" if setting.minimum == smallest else f"at least {setting.minimum:.0f}"
        if setting.type == "double" and setting.maximum < largest:
            bounds = f"{setting.minimum:g} to {setting.maximum:g}"
        default = "no limit" if setting.default == largest else str(setting.default)
    doc = setting.doc + (" *pykcoord's own.*" if setting.ours else "")
    return f"| `{setting.name}` | {default} | {bounds} | {setting.unit} | {doc} |"


def _crash_testing() -> str:
    """The page as it is, with the matrix in its place."""
    sys.path.insert(0, str(ROOT / "tests"))
    from crash.operations import OPERATIONS
    from crash.points import POINTS

    operations = list(OPERATIONS.values())
    numbers = [str(number) for number in range(1, len(operations) + 1)]
    lines = [f"{n}. {one.name}" for n, one in zip(numbers, operations, strict=True)]
    lines += ["", f"| fault point | {' | '.join(numbers)} | what it is |"]
    lines += [f"|---|{'---|' * len(numbers)}---|"]
    for point in POINTS.values():
        cells = ["●" if point.name in one.points else "" for one in operations]
        lines.append(f"| `{point.name}` | {' | '.join(cells)} | {point.call}: {point.about} |")
    page = (ROOT / "docs/crash-testing.md").read_text()
    before, mark, rest = page.partition("(make docs). -->\n")
    _, end, after = rest.partition("<!-- end of the matrix -->")
    assert end, "docs/crash-testing.md has lost the marks of its matrix"
    return before + mark + "\n" + "\n".join(lines) + "\n\n" + end + after


def _page(title: str, text: str, table: list[str]) -> str:
    note = "<!-- Written by .ci/generate_docs.py (make docs): change the code, not this page. -->"
    return "\n".join([f"# {title}", "", note, "", text, "", *table, ""])


def main() -> None:
    """Write every page."""
    for name, text in pages().items():
        (ROOT / "docs" / name).write_text(text)


if __name__ == "__main__":
    main()
