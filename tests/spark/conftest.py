"""One Spark session for all tests of this folder, and which of them are long."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
WITHOUT_JAVA = "Spark needs Java 17 or newer (apt install openjdk-17-jre-headless)"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what uses the session, and skips what is long unless `--spark-all` asks for it."""
    all_of_them = config.getoption("--spark-all")
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
            # A session takes seconds to start, and a busy machine makes minutes of them.
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(600))
        if item.get_closest_marker("spark_all") and not all_of_them:
            item.add_marker(pytest.mark.skip(reason="long: `make test-spark`, or --spark-all"))


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    """What tasks leave out of the garbage is looked at again where they run in this process."""
    yield
    tasks = sys.modules.get("pykcoord_spark.tasks")
    if tasks is not None and tasks._frozen:
        gc.unfreeze()
        tasks._frozen = False


@pytest.fixture(scope="session")
def java() -> str:
    """Skips where there is no Java."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        pytest.skip(WITHOUT_JAVA)
    return found


@pytest.fixture(scope="session")
def spark_environment(java: str) -> Iterator[None]:
    """What workers on this machine need to know: which Python, and where the packages are."""
    wanted = {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "spark", ROOT, ROOT / "tests"))),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def spark(spark_environment: None) -> Iterator[SparkSession]:
    """The session: two cores of this machine, no ports but on 127.0.0.1, schemas checked."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("pykcoord tests")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.pyspark.validateSchema.enabled", "true")
        # Tests end before the better compiler pays.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    yield session
    session.stop()
