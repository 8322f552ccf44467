"""The map of the project as tests: which part may import which, and how large a file may be.

Python imports by `ast`, crates by `cargo metadata`, the rest by reading what git tracks.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pykcoord"
MAX_LINES = 500

# A part may import itself and the parts above it in this list; `cli` may import all.
LAYERS = [
    {"_kio", "errors", "kafka_names", "properties", "clock", "ranges", "topic_ids", "addresses"},
    {"arrow", "events", "observers"},
    {"assignment_rules", "_arguments", "_setting", "comparing", "storing", "gathering"},
    {"config", "catalogue", "log"},
    {"transactions", "group_config", "runtime", "runtime_parts", "leading", "session", "_native"},
    # Embedding: the machine without sockets.
    {
        "compaction",
        "protocol",
        "records",
        "offset_history",
        "transfer",
        "record_fields",
        "consumer_protocol",
        "_machine",
        "shard",
        "arrow_shard",
        "snapshots",
        "tables",
        "callers",
        "event_stream",
        "recorded",
        "recorder",
        "keeping",
        "lag",
        "lag_metrics",
        "lag_watch",
        "explain",
        "_calls",
        "_member_requests",
        "expelling",
        "assignors",
        "server_assignors",
        "engine",
        "node_metrics",
    },
    # The console: of a coordinator in process, or of a server.
    {"web"},
    {"_serving", "_member_scope", "coordinator", "member", "consumer_member"},
    {"server", "clients"},
    # Clients in virtual time, and the past of a group run again with them.
    {"virtual", "replaying"},
    # A server whose shards come and go: beside `coordinator`, which it does not import.
    {"cluster"},
    # An existing Kafka, read; and its groups, followed.
    {"kafka"},
    # A broker of it that leads groups alone.
    {"node"},
    {"watch"},
    # Groups that coordinate through ZooKeeper: nothing of the engine.
    {"zookeeper"},
    {"cli", "__main__"},
]
# Forbidden although the layers would allow it.
FORBIDDEN = {
    "log": {"_native", "runtime", "config", "clock", "catalogue"},
    "server": {"_native", "log", "coordinator", "member", "shard"},
    "cluster": {"coordinator", "member", "shard", "clients"},
    "runtime": {"_native"},
    "leading": {"_native"},
    "zookeeper": {"_native", "log", "engine", "coordinator", "runtime", "server", "cluster"},
    "kafka": {"_native", "log", "engine", "coordinator", "runtime", "server", "catalogue"},
    "watch": {"engine", "coordinator", "member", "shard", "runtime", "server", "cluster"},
    "web": {"log", "engine", "shard", "arrow_shard", "_machine"},
    "catalogue": {"config", "log"},
    "config": {"log", "catalogue"},
    "_machine": {"runtime"},
    "shard": {"runtime", "arrow_shard"},
    "arrow_shard": {"runtime", "shard"},
}
# Modules of others that only some parts may use.
RESERVED = {
    "pyspark": set(),
    "socket": {"server", "cluster", "cli", "web"},
    "socketserver": set(),
    "time": {"clock"},
    "kio": {
        "_kio",
        "server",
        "errors",
        "protocol",
        "consumer_protocol",
        "tables",
        "_member_requests",
        "expelling",
        "kafka",
        "node",
        "virtual",
        "watch",
        "web",
    },
    "uvloop": {"cli", "coordinator", "cluster"},
    "prometheus_client": {"server", "watch", "node_metrics", "lag_metrics", "node", "web"},
    "starlette": {"web"},
    "uvicorn": {"web"},
    "click": {"cli"},
    "rich": {"cli"},
    "kafka": {"cli", "clients"},
    "kazoo": {"zookeeper"},
    "aiokafka": {"clients"},
    "subprocess": {"cli"},
    "obstore": {"log"},
}
# Exceptions for one package of a part: a writer on shared storage may have slept.
EXCEPTIONS = {("log/shared", "clock")}
CRATES = {
    "kcoord-timer": set(),
    "kcoord-cluster": set(),
    "kcoord-core": {"kcoord-timer"},
    "kcoord-log": {"kcoord-core"},
    "kcoord-wire": {"kcoord-core"},
    "kcoord-node": {"kcoord-core", "kcoord-wire"},
    "kcoord-rows": {"kcoord-core", "kcoord-node", "kcoord-wire"},
    "kcoord-bench": {
        "kcoord-core",
        "kcoord-log",
        "kcoord-node",
        "kcoord-rows",
        "kcoord-timer",
        "kcoord-wire",
    },
    "kcoord-sim": {"kcoord-core", "kcoord-log", "kcoord-node", "kcoord-wire"},
    "kcoord-python": {
        "kcoord-cluster",
        "kcoord-core",
        "kcoord-log",
        "kcoord-node",
        "kcoord-rows",
        "kcoord-timer",
        "kcoord-wire",
    },
}


# The whole of the repository's top level, but for names with a dot in front.
TOP_LEVEL = {
    "Cargo.lock", "Cargo.toml", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md",
    "benches", "docs", "examples", "native", "pykcoord", "pyproject.toml",
    "requirements-demo.txt", "requirements-dev.txt", "spark", "tests",
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


def _imports(path: Path) -> Iterator[str]:
    """Absolute names of what a file imports, also of what it imports for type checkers alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide who knows whom"
            assert node.module is not None
            if node.module == "pykcoord":
                yield from (f"pykcoord.{alias.name}" for alias in node.names)
            else:
                yield node.module


def _modules() -> list[Path]:
    return [path for path in _tracked("pykcoord/**.py") if path != PACKAGE / "__init__.py"]


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_knows_only_what_stands_below_it(path: Path) -> None:
    part = _part(path)
    heights = {name: height for height, layer in enumerate(LAYERS) for name in layer}
    assert part in heights, f"{part} has no place in the map"
    for name in _imports(path):
        top, _, rest = name.partition(".")
        if top == "pykcoord":
            known = rest.partition(".")[0]
            if known in ("", part):
                continue
            assert known in heights, f"{known} has no place in the map"
            assert heights[known] <= heights[part], f"{part} must not know {known}"
            excepted = (str(path.relative_to(PACKAGE).parent), known) in EXCEPTIONS
            allowed = excepted or known not in FORBIDDEN.get(part, ())
            assert allowed, f"{part} knows {known}"
        elif top in RESERVED:
            assert part in RESERVED[top], f"{part} must not use {top}"


def _extension_api() -> dict[str, set[str]]:
    """The modules that docs/architecture.md lists for others to build on, with their names."""
    text = (ROOT / "docs/architecture.md").read_text()
    section = text.partition("\n## What Spark builds on\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    modules = [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    return {name: set(importlib.import_module(name).__all__) for name in ["pykcoord", *modules]}


EXTENSION_API = _extension_api()


def _taken_by_spark() -> Iterator[tuple[Path, str, str]]:
    """File, module and name of all that `spark/` imports of pykcoord."""
    for path in _tracked("spark/**.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                of_ours = [alias.name for alias in node.names if alias.name.startswith("pykcoord.")]
                assert not of_ours, f"{path}: name what is taken of {of_ours[0]}"
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                if module.partition(".")[0] == "pykcoord":
                    yield from ((path, module, alias.name) for alias in node.names)


def test_spark_builds_on_public_names_and_on_the_documented_extension_api() -> None:
    private = [
        f"{path.relative_to(ROOT)}: {module}.{name}"
        for path, module, name in _taken_by_spark()
        if name not in EXTENSION_API.get(module, ())
    ]
    assert private == []


def test_the_extension_api_lists_what_is_used() -> None:
    """That each of its names says what it is: `tests/test_docstrings.py`."""
    used = {module for _, module, _ in _taken_by_spark()}
    assert used | {"pykcoord"} == EXTENSION_API.keys()


def test_the_engine_is_assembled_in_one_place() -> None:
    """`Coordinator`, `serve` and the hosts differ in what they hand to `Engine.open` alone."""
    parts = {"Runtime", "TopicCatalogue", "LogDirectory.open"}
    found: dict[str, set[str]] = {part: set() for part in parts}
    for path in [*_modules(), *_tracked("spark/**.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and (called := ast.unparse(node.func)) in parts:
                found[called].add(str(path.relative_to(ROOT)))
    assert found == {
        "Runtime": set(),  # the engine is told which kind
        # The topics that all nodes of a cluster share are kept in its store, not beside a log.
        "TopicCatalogue": {
            "pykcoord/engine.py",
            "pykcoord/cluster/topics.py",
            "pykcoord/node/topics.py",
        },
        "LogDirectory.open": {"pykcoord/engine.py", "pykcoord/cli/compact.py"},
    }


def test_pyarrow_is_imported_only_where_it_is_asked_for() -> None:
    """Never at the top of a module: without Arrow batches, pyarrow is not needed."""
    for path in _modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "pyarrow" not in ast.unparse(node), path


def test_few_parts_open_sockets() -> None:
    opening = {"start_server", "create_server", "open_connection", "create_connection"}
    found = {
        str(path.relative_to(PACKAGE))
        for path in _modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in opening
    }
    allowed = {
        "cluster/asking.py", "kafka/connection.py",
        "zookeeper/connection.py", "web/asking.py", "web/listener.py",
    }  # fmt: skip
    assert allowed <= found
    assert {name for name in found if not name.startswith(("server/", "cli/lab/"))} == allowed


_OPENED_BY_THE_LOG = {
    "LogDirectory", "LogReader", "Engine", "Cluster", "CopiedDirectory", "ReplicaDirectory",
    "ReplicaLog", "Watcher", "KafkaNode"
}  # fmt: skip


def _opens_a_file(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="open"):
            return True
        case ast.Attribute(attr="read_text" | "read_bytes" | "write_text" | "write_bytes"):
            return True
        case ast.Attribute(value=ast.Name(id=name), attr="open") if name in _OPENED_BY_THE_LOG:
            return False
        case ast.Attribute(attr="open" | "pwrite" | "pread" | "fsync" | "fdatasync"):
            return True
    return False


def test_only_the_log_opens_files() -> None:
    """And the command line, which reads the files that its user names, and its laboratory."""
    named_by_users = [
        PACKAGE / "cli/serve.py",
        PACKAGE / "cli/end_offsets.py",
        PACKAGE / "cli/command_config.py",
        PACKAGE / "cli/kafka.py",
        # Certificates and tokens that the user's properties name.
        PACKAGE / "kafka/tls.py",
        PACKAGE / "kafka/tokens.py",
        PACKAGE / "cli/web_options.py",
        PACKAGE / "cli/offsets/restore.py",
    ]
    named_by_users += (PACKAGE / "cli/zookeeper").glob("*.py")
    for path in _modules():
        is_laboratory = PACKAGE / "cli/lab" in path.parents
        if _part(path) == "log" or is_laboratory or path in named_by_users:
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


@pytest.mark.parametrize("crate", ["cluster", "core", "timer"])
def test_the_core_depends_on_next_to_nothing(crate: str) -> None:
    """No clock, no I/O, no randomness, no threads: what could bring them is not there."""
    text = (ROOT / f"native/{crate}/Cargo.toml").read_text()
    section = re.search(r"^\[dependencies\]\n(.*?)(^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    names = set(re.findall(r"^([\w-]+)\s*[.=]", section[1], re.MULTILINE))
    # `regex`: topics by pattern, in linear time; `xxhash-rust`: the number by which Kafka tells
    # topics apart. Both compute, and have no clock, no I/O and no randomness.
    assert names <= {
        "ahash", "ascii", "hashbrown", "kcoord-timer", "regex", "regex-syntax", "smallvec",
        "wildmatch", "xxhash-rust",
    }  # fmt: skip


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


def _used_paths(text: str) -> Iterator[list[str]]:
    """The paths of all `use` of a Rust file, braces written out, but for its tests'."""
    code = re.sub(r"//[^\n]*", "", text).partition("#[cfg(test)]\nmod tests")[0]

    def spread(path: str) -> Iterator[str]:
        head, brace, rest = path.partition("{")
        if not brace:
            yield path
            return
        depth, begin = 0, 0
        inner = rest[: rest.rindex("}")]
        for at, letter in enumerate(inner + ","):
            depth += (letter == "{") - (letter == "}")
            if letter == "," and depth == 0:
                if part := inner[begin:at].strip():
                    yield from (head.strip() + each for each in spread(part))
                begin = at + 1

    for found in re.finditer(r"(?:^|\s)use\s+([^;]+);", code):
        for path in spread(found[1].strip()):
            yield [name.strip() for name in path.partition(" as ")[0].split("::")]


def _module(source: Path, file: Path) -> tuple[str, ...]:
    names = file.relative_to(source).with_suffix("").parts
    return names[:-1] if names[-1] in ("mod", "lib", "main") else names


def _known_by(source: Path) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """Modules of a crate: which others each names, but for its own folder's head and parts."""
    files = {_module(source, file): file for file in source.rglob("*.rs")}
    known: dict[tuple[str, ...], set[tuple[str, ...]]] = {name: set() for name in files}
    for name, file in files.items():
        for path in _used_paths(file.read_text()):
            at = list(name)
            if path[0] == "crate":
                at, path = [], path[1:]
            elif path[0] in ("super", "self"):
                while path and path[0] in ("super", "self"):
                    at = at[:-1] if path[0] == "super" else at
                    path = path[1:]
            elif (*name, path[0]) not in files:
                continue
            while path and (*at, path[0]) in files:
                at, path = [*at, path[0]], path[1:]
            other = tuple(at)
            is_kin = other[: len(name)] == name or name[: len(other)] == other
            if not is_kin:
                known[name].add(other)
    return known


def _circles(known: dict[tuple[str, ...], set[tuple[str, ...]]]) -> list[set[str]]:
    """Modules that reach each other."""

    def reached(first: tuple[str, ...]) -> set[tuple[str, ...]]:
        found: set[tuple[str, ...]] = set()
        left = list(known[first])
        while left:
            if (name := left.pop()) not in found:
                found.add(name)
                left.extend(known[name])
        return found

    reach = {name: reached(name) for name in known}
    circles = {
        frozenset("::".join(other) for other in reach[name] if name in reach[other])
        for name in known
        if name in reach[name]
    }
    return sorted((set(circle) for circle in circles), key=sorted)


@pytest.mark.parametrize("crate", sorted(name.removeprefix("kcoord-") for name in CRATES))
def test_no_modules_of_a_crate_know_each_other(crate: str) -> None:
    assert _circles(_known_by(ROOT / f"native/{crate}/src")) == []


def test_a_circle_is_found() -> None:
    known = {("a",): {("b",)}, ("b",): {("c", "d")}, ("c", "d"): {("a",)}, ("e",): {("a",)}}
    assert _circles(known) == [{"a", "b", "c::d"}]
    used = list(
        _used_paths("pub use crate::{a, b::{self, c}};\n// use x::y;\nuse super::d as e;\n")
    )
    assert used == [["crate", "a"], ["crate", "b", "self"], ["crate", "b", "c"], ["super", "d"]]
