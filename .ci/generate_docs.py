"""Write the parts of docs/ that follow from the code: two pages, and the matrix of crash tests.

`make docs` runs it; a test compares the pages with what it would write. `pages()` touches no file.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pykcoord.config import SETTINGS, Setting
from pykcoord.protocol import GROUP_APIS
from pykcoord.server.api import registry

ROOT = Path(__file__).parent.parent


def pages() -> dict[str, str]:
    """Name in docs/ to text."""
    return {
        "apis.md": _apis(),
        "configuration.md": _configuration(),
        "crash-testing.md": _crash_testing(),
    }


def _apis() -> str:
    rows = [
        (api.key, api.name, _versions(api.minimum, api.maximum), "core", _about_group_api(api.name))
        for api in GROUP_APIS
    ]
    for node_api in registry.APIS.values():
        advertised = node_api.advertised_minimum
        low = node_api.minimum if advertised is None else advertised
        about = _about(node_api.answer.__module__)
        versions = _versions(low, node_api.maximum)
        rows.append((node_api.key, node_api.name, versions, "server", about))
    lines = [f"| {' | '.join(map(str, row))} |" for row in sorted(rows)]
    return _page(
        "APIs and versions served",
        """ApiVersions tells clients exactly this. *core*: answered by the native group coordinator,
from its log; *server*: answered by the server from its topic catalogue. A request for anything
else closes the connection with one line of log; ApiVersions in a version that is too new is
answered as Kafka does, so that the client asks again.

WriteTxnMarkers and TxnOffsetCommit are listed only where somebody coordinates transactions
([transactions](embedding.md#transactions)).

Not served: the APIs of share groups and streams groups, those of a transaction coordinator, SASL
and quotas. Fetch brings no records.""",
        ["| key | API | versions | by | what it does here |", "|---|---|---|---|---|", *lines],
    )


def _about(module: str) -> str:
    """What the first line of an API's module says of it."""
    path = ROOT / Path(*module.split(".")).with_suffix(".py")
    first = path.read_text().partition('"""')[2].partition('"""')[0]
    sentence = " ".join(first.split("\n\n")[0].split()).partition(": ")[2]
    return sentence[:1].upper() + sentence[1:]


def _about_group_api(name: str) -> str:
    """What the first sentence of its codec says of it."""
    file = re.sub("(?<!^)([A-Z])", r"_\1", name).lower()
    source = (ROOT / f"native/wire/src/api/{file}.rs").read_text()
    lines = source.partition("\n\n")[0].splitlines()
    text = " ".join(line.removeprefix("//!").strip() for line in lines)
    sentence = text.partition(": ")[2].partition(". ")[0].rstrip(".")
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _versions(low: int, high: int) -> str:
    return f"{low}-{high}" if high > low else f"{low}"


def _configuration() -> str:
    lines = [_setting(setting) for setting in SETTINGS.values()]
    return _page(
        "Configuration",
        """Names, units, defaults and bounds are those of Kafka 4.4, except where *pykcoord's own*
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
        known = [*setting.choices, *(["module:Class"] if setting.or_classes else [])]
        bounds = "of " + ", ".join(f"`{choice}`" for choice in known)
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
