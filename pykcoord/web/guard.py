"""Who may ask, and what browsers may do with the answer: around every request."""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pykcoord.web.options import WebOptions, is_loopback

__all__ = ["COOKIE", "Guard", "Sessions"]

COOKIE = "pykcoord_console"
_MOST_SESSIONS = 1_000
_OPEN = ("/healthz", "/readyz", "/login")

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # Text never becomes markup: a script that tried would fail.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Sessions:
    """Browsers that gave the token, and the secret that changes have to name."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        self._open: OrderedDict[str, None] = OrderedDict()
        self.change_token = secrets.token_urlsafe(24)
        """What a page reads and a change has to send: no other site can read it."""

    @property
    def is_open(self) -> bool:
        """Whether no token is wanted."""
        return self._token is None

    def is_token(self, given: str) -> bool:
        """Whether that is the token, in constant time."""
        wanted = self._token or ""
        return hmac.compare_digest(given.encode(), wanted.encode())

    def begin(self) -> str:
        """A new session's name; the oldest gives way to it."""
        name = secrets.token_urlsafe(32)
        self._open[name] = None
        while len(self._open) > _MOST_SESSIONS:
            self._open.popitem(last=False)
        return name

    def end(self, name: str) -> None:
        """It counts no more."""
        self._open.pop(name, None)

    def allows(self, headers: Headers) -> bool:
        """Whether who sends these headers may ask."""
        if self._token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.is_token(given.strip())
        return session_of(headers) in self._open

    def may_change(self, headers: Headers) -> bool:
        """Whether a change comes from a page of this console."""
        origin = headers.get("origin")
        if origin is not None and _authority(origin) != headers.get("host"):
            return False
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return False
        given = headers.get("x-pykcoord-change", "")
        return hmac.compare_digest(given.encode(), self.change_token.encode())


def session_of(headers: Headers) -> str:
    """The session that a browser names; empty: none. Beside it may stand cookies of whatever else
    is served at that name, in any form."""
    return cookie_parser(headers.get("cookie", "")).get(COOKIE, "")


class Guard:
    """Answers those itself who may not ask; sends the headers that bind a browser with the rest."""

    def __init__(self, app: ASGIApp, options: WebOptions, sessions: Sessions) -> None:
        self._app = app
        self._sessions = sessions
        # Without a token only this machine asks: a page elsewhere whose name was made to lead here
        # would name itself.
        self._hosts = None if options.token is not None else _hosts(options.listen[0])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        path = request.scope["path"]  # `url` has the Host header in it, which the asker chose
        host = request.headers.get("host", "")
        if self._hosts is not None and _host_name(host) not in self._hosts:
            text = "Ask this console as 127.0.0.1 or localhost, or start it with --web-token-file."
            return PlainTextResponse(f"{text}\n", 421)
        if path in _OPEN or path.startswith("/assets/") or self._sessions.allows(request.headers):
            return None
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("/login", 303)
        text = "A token is wanted: Authorization: Bearer TOKEN"
        return PlainTextResponse(f"{text}\n", 401, {"WWW-Authenticate": "Bearer"})


def _hosts(listen: str) -> set[str]:
    names = {listen.lower(), "localhost", "127.0.0.1", "::1"}
    return names if is_loopback(listen) else names | {""}


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
