"""The dashboard and the alert rules of examples/monitoring: each query is run in a real Prometheus
that scrapes a server and a watcher. Skipped where there is no Prometheus."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import orphans
from support.ports import free_port

from pykcoord import Config, Coordinator
from pykcoord.server.metrics_listener import serve_metrics
from pykcoord.watch.metrics import WatchMetrics

from .conftest import new_cluster, until, watching
from .offsets_log import commit

pytestmark = pytest.mark.timeout(180)

EXAMPLES = Path(__file__).parents[2] / "examples" / "monitoring"
ALERTS = EXAMPLES / "alerts.yml"
DASHBOARD = EXAMPLES / "grafana-groups.json"
DOCS = Path(__file__).parents[2] / "docs"
SECONDS = 90
# Nothing of these is wrong here.
QUIET = {"deriv("}


def panels() -> dict[str, str]:
    """The dashboard's queries by the titles of their panels, with its variables filled in."""
    document = json.loads(DASHBOARD.read_text())
    found = {
        panel["title"]: target["expr"].replace("$group", ".*")
        for panel in document["panels"]
        for target in panel["targets"]
    }
    assert len(found) == len(document["panels"])
    return found


def rules() -> dict[str, str]:
    text = ALERTS.read_text()
    names = re.findall(r"^ +- alert: (\w+)$", text, re.MULTILINE)
    return dict(zip(names, re.findall(r"^ +expr: (.+)$", text, re.MULTILINE), strict=True))


def test_every_name_in_the_examples_is_in_the_docs() -> None:
    text = "".join((DOCS / f"{name}.md").read_text() for name in ("lag", "kafka", "operating"))
    for query in (*panels().values(), *rules().values()):
        for name in re.findall(r"\bpykcoord_[a-z_]+", query):
            plain = re.sub(r"_(bucket|sum|count)$", "", name)
            assert plain in text, f"{name} of {query}"


def tool(name: str) -> str:
    """In the folder PROMETHEUS, or on PATH."""
    folder = os.environ.get("PROMETHEUS")
    found = shutil.which(name, path=folder) if folder else shutil.which(name)
    if found is None:
        pytest.skip(f"no `{name}` on PATH, nor in the folder PROMETHEUS (Debian: prometheus)")
    return found


def test_promtool_finds_the_rules_sound() -> None:
    done = subprocess.run(
        [tool("promtool"), "check", "rules", str(ALERTS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(rules())} rules found" in done.stdout


class Prometheus:
    """One that scrapes these targets each second, with the alert rules."""

    def __init__(self, folder: Path, targets: dict[str, str]) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [
                {"job_name": name, "static_configs": [{"targets": [address]}]}
                for name, address in targets.items()
            ],
        }
        file = folder / "prometheus.yml"
        file.write_text(json.dumps(config))  # which is YAML
        self._log = (folder / "prometheus.log").open("w")
        self._process = subprocess.Popen(
            [
                tool("prometheus"), f"--config.file={file}", f"--web.listen-address={self.address}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
            ],
            stdout=self._log, stderr=self._log,
        )  # fmt: skip
        orphans.started(self._process)

    def query(self, text: str) -> list[Any]:
        found = self.ask("query", query=text)
        assert found["status"] == "success", (text, found)
        result: list[Any] = found["data"]["result"]
        return result

    def ask(self, path: str, **parameters: str) -> Any:
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)

    def scrapes(self, targets: int) -> bool:
        """Whether all have been scraped twice, so that rates are known."""
        try:
            found = self.query("count_over_time(up[1m]) >= 3 and up == 1")
        except OSError:
            return False
        return len(found) == targets

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        orphans.ended(self._process)
        self._log.close()


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    config = Config(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=3)
    topics = {"orders": 4}
    with Coordinator(tmp_path / "data", config=config, topics=topics, web="127.0.0.1:0") as opened:
        yield opened


def test_each_query_runs_in_a_real_prometheus(coordinator: Coordinator, tmp_path: Path) -> None:
    tool("prometheus")
    assert coordinator.web_url is not None
    served = urllib.parse.urlsplit(coordinator.web_url).netloc
    coordinator.set_end_offsets({("orders", at): 1_000 for at in range(4)})

    def look(watched: str) -> None:
        prometheus = Prometheus(tmp_path, {"serve": served, "watch": watched})
        try:
            deadline = time.monotonic() + SECONDS
            while not prometheus.scrapes(2):
                assert time.monotonic() < deadline, (tmp_path / "prometheus.log").read_text()
                time.sleep(0.2)
            for title, query in panels().items():
                found = prometheus.query(query)
                assert found or any(words in query for words in QUIET), title
            jobs = {one["metric"]["job"] for one in prometheus.query("pykcoord_group_lag")}
            assert jobs == {"serve", "watch"}
            for query in rules().values():
                prometheus.query(query)
            known = prometheus.ask("rules")["data"]["groups"]
            health = {rule["name"]: rule["health"] for of in known for rule in of["rules"]}
            assert health == dict.fromkeys(rules(), "ok")
        finally:
            prometheus.end()

    async def story() -> None:
        cluster = new_cluster()
        async with cluster.running():
            commit(cluster.partition("__consumer_offsets", 0), "billing", 3)
            cluster.partition("orders", 0).start = 50
            async with watching(cluster, None) as watcher:
                await until(lambda: ("orders", 0) in watcher.ends.known)
                with serve_metrics(WatchMetrics(watcher).registry, ("127.0.0.1", 0)) as url:
                    await asyncio.to_thread(look, urllib.parse.urlsplit(url).netloc)

    with coordinator.join("billing", ["orders"]) as member:
        member.wait()
        member.commit({("orders", 0): 10, ("orders", 1): 20})
        with coordinator.join("gone", ["orders"]) as other:
            other.wait()
            other.commit({("orders", 2): 5})
        asyncio.run(story())
