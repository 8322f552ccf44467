"""A console asked over HTTP, and streams of it, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

SECONDS = 60.0


class Console:
    """A console at `url`. Each request has a connection of its own."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.url = url.rstrip("/")
        self.address = urlsplit(url).netloc
        self._headers = dict(headers or {})

    def get(self, path: str, **parameters: Any) -> Any:
        """The JSON of an answer of 200."""
        status, _, body = self.ask("GET", path, parameters)
        assert status == 200, body
        return json.loads(body)

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        """Status and JSON of the answer to a change, which has all that a page sends with it."""
        change_token = self.get("/api/session")["change_token"] or ""
        sent = {
            "Content-Type": "application/json",
            "X-Pykcoord-Change": change_token,
            "Origin": self.url,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        status, _, answer = self.ask("POST", path, headers=sent, body=json.dumps(body).encode())
        return status, json.loads(answer)

    def ask(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Status, headers and body of an answer."""
        connection = http.client.HTTPConnection(self.address, timeout=SECONDS)
        try:
            whole = f"{path}?{urlencode(parameters)}" if parameters else path
            connection.request(method, whole, body, {**self._headers, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def stream(self, **parameters: Any) -> Stream:
        """What the console tells."""
        return Stream(self.address, parameters, self._headers)


class Stream:
    """Server-sent events, one after the other."""

    def __init__(
        self, address: str, parameters: Mapping[str, Any], headers: Mapping[str, str]
    ) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), SECONDS)
        path = f"/api/events?{urlencode(parameters)}" if parameters else "/api/events"
        lines = [f"GET {path} HTTP/1.1", f"Host: {address}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self._file = self._socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        while self._file.readline().strip():
            pass

    def ticks(self) -> Iterator[dict[str, Any]]:
        """The data of each message, until the stream ends."""
        for line in self._file:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def close(self) -> None:
        """Go away, in mid-stream."""
        self._file.close()
        self._socket.close()
