"""A certificate of this machine's loopback address, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def make_certificate(path: Path) -> None:
    """Writes key and certificate in PEM, the latter signed by the former; skips without openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("no `openssl` on PATH, which makes the certificate")
    key, certificate = path.with_suffix(".key"), path.with_suffix(".crt")
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30",
            "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", str(key), "-out", str(certificate),
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_text(key.read_text() + certificate.read_text())
