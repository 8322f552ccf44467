"""Clusters of Spark on this machine, as processes of their own.

A standalone one, and a Spark Connect server. All are on 127.0.0.1, and end with the block.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from support import orphans
from support.ports import free_port

BIN = Path(pyspark.__file__).parent / "bin"
READY_SECONDS = 120.0


def environment() -> dict[str, str]:
    """For all that starts a JVM of Spark, or is started by one."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master with two workers of a core each; its URL. `folder` gets its logs."""
    port = free_port()
    master, spark_class = f"spark://127.0.0.1:{port}", str(BIN / "spark-class")
    deploy = "org.apache.spark.deploy"
    host = ["--host", "127.0.0.1", "--webui-port", "0"]
    worker = [spark_class, f"{deploy}.worker.Worker", *host, "--cores", "1", "--memory", "1g"]
    with (
        _daemon(
            folder / "master.log", spark_class, f"{deploy}.master.Master", *host,
            "--port", str(port), port=port,
        ),
        _daemon(folder / "1.log", *worker, "-d", str(folder / "worker-1"), master),
        _daemon(folder / "2.log", *worker, "-d", str(folder / "worker-2"), master),
    ):  # fmt: skip
        yield master


@contextmanager
def connect(folder: Path) -> Iterator[str]:
    """A Spark Connect server over `local[2]`; its URL. `folder` gets its log."""
    port = free_port()
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
    }
    conf = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    submit = [str(BIN / "spark-submit"), "--class", server, "--master", "local[2]", *conf]
    with _daemon(folder / "connect.log", *submit, port=port):
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _daemon(log: Path, *command: str, port: int | None = None) -> Iterator[None]:
    """A JVM that ends with the block; with `port`, it is waited for."""
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, env=environment(), stdout=said, stderr=said, start_new_session=True
        )
        orphans.started(process)
        try:
            deadline = time.monotonic() + READY_SECONDS
            while port is not None and not _is_served(port):
                assert process.poll() is None, log.read_text()[-4000:]
                assert time.monotonic() < deadline, log.read_text()[-4000:]
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            orphans.ended(process)


def _is_served(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
