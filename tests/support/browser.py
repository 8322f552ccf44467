"""A headless Chromium, driven over WebDriver's HTTP: nothing but what Debian has is needed."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import orphans
from support.ports import free_port

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
MISSING = "Chromium is missing: apt install chromium chromium-driver"
_SECONDS = 60.0
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class BrowserError(RuntimeError):
    """What the driver says of a command that failed."""


class Browser:
    """One window. `seconds` is how long it waits for what is to come true."""

    def __init__(self, base: str, session: str) -> None:
        self._base = f"{base}/session/{session}"

    def open(self, url: str) -> None:
        """Go there."""
        self._ask("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """What the body of a function returns in the page."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def until(self, script: str, *arguments: Any, seconds: float = _SECONDS) -> Any:
        """Waits until the script's result is true, and returns it."""
        return until(lambda: self.run(script, *arguments), f"{script} {arguments}", seconds)

    def text(self, selector: str) -> str:
        """What an element shows; waits for it."""
        found = self.until("return document.querySelector(arguments[0])", selector)
        shown: str = self._ask("GET", f"/element/{found[_ELEMENT]}/text")
        return shown

    def click(self, selector: str) -> None:
        """As a user does; waits for the element."""
        found = self.until("return document.querySelector(arguments[0])", selector)
        self._ask("POST", f"/element/{found[_ELEMENT]}/click", {})

    def type(self, selector: str, text: str) -> None:
        """Keys into a field; waits for it."""
        found = self.until("return document.querySelector(arguments[0])", selector)
        self._ask("POST", f"/element/{found[_ELEMENT]}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Keys, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._ask(
            "POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]}
        )

    def devtools(self, command: str, **parameters: Any) -> Any:
        """A command of Chromium's own."""
        body = {"cmd": command, "params": parameters}
        return self._ask("POST", "/goog/cdp/execute", body)

    def size(self, width: int, height: int, *, scale: float = 1, phone: bool = False) -> None:
        """The page's size in CSS pixels."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=phone,
        )

    def prefers(self, scheme: str) -> None:
        """The system's colors: light or dark."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.devtools("Emulation.setEmulatedMedia", features=[feature])

    def logged(self) -> list[dict[str, Any]]:
        """What the page logged since it was asked last: errors and refusals of the policy."""
        found: list[dict[str, Any]] = self._ask("POST", "/se/log", {"type": "browser"})
        return found

    def screenshot(self, path: Path) -> None:
        """What the window shows, as PNG."""
        path.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    def close(self) -> None:
        """End the window."""
        self._ask("DELETE", "")

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        return _ask(method, self._base + path, body)


@contextmanager
def browser() -> Iterator[Browser]:
    """A window of a new Chromium, which ends with it."""
    assert CHROMIUM is not None
    assert DRIVER is not None
    port = free_port()
    process = subprocess.Popen(
        [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    orphans.started(process)
    base = f"http://127.0.0.1:{port}"
    try:
        until(lambda: _is_up(base), "chromedriver answers", _SECONDS)
        arguments = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--hide-scrollbars", "--force-color-profile=srgb", "--lang=en",
        ]  # fmt: skip
        options = {"binary": CHROMIUM, "args": arguments}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = _ask("POST", f"{base}/session", {"capabilities": {"alwaysMatch": wanted}})
        window = Browser(base, answer["sessionId"])
        try:
            yield window
        finally:
            window.close()
    finally:
        process.terminate()
        process.wait(_SECONDS)
        orphans.ended(process)


def until(check: Callable[[], Any], what: str, seconds: float) -> Any:
    """Waits until `check()` is true, and returns it. The driver tells nothing by itself, so that it
    is asked again and again."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
    return found


def _is_up(base: str) -> bool:
    try:
        return bool(_ask("GET", f"{base}/status")["ready"])
    except OSError:
        return False


def _ask(method: str, url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        told = json.load(error)["value"]
        raise BrowserError(f"{told['error']}: {told['message'].splitlines()[0]}") from None
