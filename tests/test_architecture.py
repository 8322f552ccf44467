"""The map of the project as tests: who may know whom, and how large a file may be.

Python imports by `ast`, crates by `cargo metadata`, the rest by reading what git tracks.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pykcoord"
MAX_LINES = 500

# A part may import itself and what stands below it here; `cli` knows everything.
LAYERS = [
    {"errors", "kafka_names", "properties", "clock", "arrow"},
    {"assignment_rules"},
    {"config", "catalogue", "log"},
    {"runtime", "_native"},
    # Embedding: the machine without sockets.
    {
        "compaction",
        "protocol",
        "consumer_protocol",
        "shard",
        "snapshots",
        "tables",
        "callers",
        "_member_requests",
    },
    {"coordinator", "member", "assignors"},
    {"server", "clients"},
    {"cli", "__main__"},
]
# What a layer alone would allow.
FORBIDDEN = {
    "log": {"_native", "runtime", "config", "clock", "catalogue"},
    "server": {"_native", "log", "coordinator", "member", "shard"},
    "runtime": {"_native"},
    "catalogue": {"config", "log"},
    "config": {"log", "catalogue"},
    "shard": {"runtime"},
}
# Modules of others that only some parts may use.
RESERVED = {
    "pyspark": set(),
    "socket": {"server"},
    "socketserver": set(),
    "time": {"clock"},
    "kio": {"server", "errors", "protocol", "consumer_protocol", "tables", "_member_requests"},
    "uvloop": {"cli", "coordinator"},
    "prometheus_client": {"server"},
    "click": {"cli"},
    "rich": {"cli"},
    "kafka": {"cli", "clients"},
    "aiokafka": {"clients"},
    "subprocess": {"cli"},
}
CRATES = {
    "kcoord-core": set(),
    "kcoord-log": {"kcoord-core"},
    "kcoord-wire": {"kcoord-core"},
    "kcoord-bench": {"kcoord-core", "kcoord-log", "kcoord-wire"},
    "kcoord-sim": {"kcoord-core", "kcoord-log", "kcoord-wire"},
    "kcoord-python": {"kcoord-core", "kcoord-log", "kcoord-wire"},
}


# The whole of the repository's top level, but for names with a dot in front.
TOP_LEVEL = {
    "Cargo.lock", "Cargo.toml", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md",
    "benches", "docs", "native", "pykcoord", "pyproject.toml", "requirements-dev.txt",
    "spark", "tests",
}  # fmt: skip


def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *patterns],
        cwd=ROOT, capture_output=True, check=True, text=True,
    )  # fmt: skip
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def _part(path: Path) -> str:
    """The first name below `pykcoord`: a module, or a package with all in it."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py").removesuffix(".pyx")


def _imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Absolute names of what a file imports, and whether that is only for type checkers."""
    tree = ast.parse(path.read_text())
    for_checkers: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for_checkers.update(child for each in node.body for child in ast.walk(each))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node in for_checkers) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide who knows whom"
            assert node.module is not None
            if node.module == "pykcoord":
                yield from (
                    (f"pykcoord.{alias.name}", node in for_checkers) for alias in node.names
                )
            else:
                yield node.module, node in for_checkers


def _modules() -> list[Path]:
    return [path for path in _tracked("pykcoord/**.py") if path != PACKAGE / "__init__.py"]


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_knows_only_what_stands_below_it(path: Path) -> None:
    part = _part(path)
    heights = {name: height for height, layer in enumerate(LAYERS) for name in layer}
    assert part in heights, f"{part} has no place in the map"
    for name, for_checkers in _imports(path):
        top, _, rest = name.partition(".")
        if top == "pykcoord":
            known = rest.partition(".")[0]
            if known in ("", part):
                continue
            assert known in heights, f"{known} has no place in the map"
            assert heights[known] <= heights[part], f"{part} must not know {known}"
            assert for_checkers or known not in FORBIDDEN.get(part, ()), f"{part} knows {known}"
        elif top in RESERVED:
            assert part in RESERVED[top], f"{part} must not use {top}"


def test_pyarrow_is_imported_only_where_it_is_asked_for() -> None:
    """Never at the top of a module: who brings no Arrow needs no pyarrow."""
    for path in _modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "pyarrow" not in ast.unparse(node), path


def _opens_a_file(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="open"):
            return True
        case ast.Attribute(attr="read_text" | "read_bytes" | "write_text" | "write_bytes"):
            return True
        case ast.Attribute(value=ast.Name(id="LogDirectory" | "LogReader"), attr="open"):
            return False
        case ast.Attribute(attr="open" | "pwrite" | "pread" | "fsync" | "fdatasync"):
            return True
    return False


def test_only_the_log_opens_files() -> None:
    """And the command line, which reads the configuration file that its user names."""
    for path in _modules():
        if _part(path) == "log" or path == PACKAGE / "cli/serve.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                assert not _opens_a_file(node), f"{path}:{node.lineno}: {ast.unparse(node)}"


def test_crates_know_only_what_stands_below_them() -> None:
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"],
            cwd=ROOT, capture_output=True, check=True, text=True,
        ).stdout
    )  # fmt: skip
    packages = {package["name"]: package for package in metadata["packages"]}
    assert packages.keys() <= CRATES.keys()
    for name, package in packages.items():
        normal = {known["name"] for known in package["dependencies"] if known["kind"] is None}
        assert normal & CRATES.keys() <= CRATES[name], name
        assert name == "kcoord-python" or not any(of.startswith("pyo3") for of in normal), name


def test_the_core_depends_on_next_to_nothing() -> None:
    """No clock, no I/O, no randomness, no threads: what could bring them is not there."""
    text = (ROOT / "native/core/Cargo.toml").read_text()
    section = re.search(r"^\[dependencies\]\n(.*?)(^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    names = set(re.findall(r"^([\w-]+)\s*[.=]", section[1], re.MULTILINE))
    assert names <= {"ahash", "ascii", "hashbrown", "smallvec", "wildmatch"}


def test_each_group_api_has_a_file_of_its_own_in_the_core() -> None:
    core = ROOT / "native/core/src"
    verbs = {
        "group/classic": ["join", "sync", "heartbeat", "leave"],
        "group/admin": ["describe", "list", "delete"],
        "offset": ["commit", "fetch", "delete"],
    }
    for folder, names in verbs.items():
        for name in names:
            file = core / folder / f"{name}.rs"
            assert file.is_file() or (core / folder / name).is_dir(), file


def test_no_source_file_is_over_500_lines() -> None:
    sources = _tracked("*.rs", "*.py", "*.pyx", "*.pxd", "*.pyi", "*.java", "*.go", "*.js", "*.c")
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources
        if (lines := path.read_bytes().count(b"\n")) > MAX_LINES
    }
    assert long == {}


def test_the_top_level_of_the_repository_is_fixed() -> None:
    found = {path.relative_to(ROOT).parts[0] for path in _tracked()}
    assert {name for name in found if not name.startswith(".")} <= TOP_LEVEL


def test_no_file_names_a_path_of_one_machine() -> None:
    path_of_a_machine = re.compile(rb"(^|[^A-Za-z0-9_.])/(work|tmp|root|home/\w+)/")
    recorded = ("tests/segments/", "tests/traces/", "tests/vectors/")
    for path in _tracked():
        name = str(path.relative_to(ROOT))
        if name.startswith(recorded) or path.suffix in (".lock", ".gz"):
            continue
        found = path_of_a_machine.search(path.read_bytes())
        assert found is None, f"{name}: {found[0].decode()}" if found else ""
