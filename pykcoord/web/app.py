"""The HTTP application: pages, JSON under /api/, health and metrics."""

from __future__ import annotations

import asyncio
import json
import logging
import mimetypes
import pkgutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from pykcoord.errors import ArgumentError, KafkaError, KcoordError
from pykcoord.web.admin import Admin
from pykcoord.web.feed import Feed, TooManyError
from pykcoord.web.guard import COOKIE, Guard, Sessions, session_of
from pykcoord.web.history import HOUR_MS, History
from pykcoord.web.listing import Listing
from pykcoord.web.openapi import description
from pykcoord.web.options import WebOptions
from pykcoord.web.pages import Pages
from pykcoord.web.parameters import BadRequestError, Body, Query
from pykcoord.web.past import Pasts
from pykcoord.web.reading import Reading, Reads
from pykcoord.web.source import Source

__all__ = ["ASSETS", "Application"]

logger = logging.getLogger("pykcoord.web")

ASSETS = (
    "app.js",
    "charts.js",
    "cluster.js",
    "dialogs.js",
    "dom.js",
    "group.js",
    "groups.js",
    "icon.svg",
    "live.js",
    "login.js",
    "owners.js",
    "style.css",
    "theme.css",
)
_PAGES = ("/", "/group", "/cluster")
_ASSET_AGE_SECONDS = 300
_KEPT_SECONDS = 0.25


class Application:
    """The console of one source, which is read by Kafka's requests unless `reading` is given.
    `starlette` is the ASGI application; its lifespan listens to
    events and lists groups. On one loop only."""

    def __init__(
        self,
        source: Source,
        options: WebOptions,
        now_ms: Callable[[], int],
        reading: Reads | None = None,
    ) -> None:
        self._source = source
        self._options = options
        self._reading = reading if reading is not None else Reading(source)
        self._history = History(now_ms)
        self._listing = Listing(source, self._reading, now_ms)
        pasts = self._pasts = Pasts(source, self._history, now_ms)
        self._pages = Pages(source, self._reading, self._listing, self._history, pasts, now_ms)
        self._admin = Admin(source, self._reading)
        self._sessions = Sessions(options.token)
        self.feed = Feed(now_ms)
        self._files = {name: _asset(name) for name in (*ASSETS, "index.html", "login.html")}
        self.starlette = Starlette(
            routes=self._routes(),
            middleware=[Middleware(Guard, options=options, sessions=self._sessions)],
            exception_handlers={
                404: _missing,
                BadRequestError: _bad_request,
                ClientDisconnect: _gone,
                KafkaError: _refused,
                KcoordError: _unavailable,
                OSError: _unavailable,
                TimeoutError: _unavailable,
            },
            lifespan=self._lifespan,
        )

    def _routes(self) -> list[Route]:
        routes = [Route(path, self._page) for path in _PAGES]
        routes += [
            Route("/login", self._login_page),
            Route("/login", self._login, methods=["POST"]),
            Route("/logout", self._logout, methods=["POST"]),
            Route("/assets/{name}", self._asset),
            Route("/api", self._api),
            Route("/api/", self._api),
            Route("/api/session", self._session),
            Route("/api/groups", self._groups),
            Route("/api/group", self._group),
            Route("/api/group/lag", self._lag),
            Route("/api/cluster", self._cluster),
            Route("/api/events", self._events),
            Route("/api/openapi.json", self._openapi),
            Route("/api/group/delete", self._delete, methods=["POST"]),
            Route("/api/group/expel", self._expel, methods=["POST"]),
            Route("/api/group/reset", self._reset, methods=["POST"]),
            Route("/healthz", self._health),
            Route("/readyz", self._ready),
            Route("/metrics", self._metrics),
        ]
        return routes

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(_kept_up(self._listen)),
            asyncio.create_task(_kept_up(self._listing.run)),
            asyncio.create_task(_kept_up(self._count_before)),
            asyncio.create_task(_kept_up(self._look_at_kept)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self) -> None:
        """Hear what happens to groups until the coordinator ends."""
        with self._source.events() as events:
            async for event in events:
                self._history.put(event)
                self._listing.hear(event)
                self.feed.hear(event)

    async def _look_at_kept(self) -> None:
        """Tell those that watch a group when another process has kept more of it."""
        while True:
            await asyncio.sleep(_KEPT_SECONDS)
            for group_id in self.feed.watched():
                with suppress(OSError, KcoordError):
                    if await self._pasts.has_more(group_id):
                        self.feed.change(group_id)

    async def _count_before(self) -> None:
        """Rebalances from before the console began, as far as they are kept."""
        since_ms = self._history.since_ms - HOUR_MS
        try:
            found = await asyncio.to_thread(self._source.rebalanced_since, since_ms)
        except (OSError, KcoordError) as error:
            logger.warning(
                "console: rebalances of the hour before it began are not counted: %s",
                error,
                extra={"event": "web_failure"},
            )
            return
        if found is not None:
            self._history.count_before(found, since_ms)

    async def _page(self, request: Request) -> Response:
        return self._file("index.html", "no-cache")

    async def _login_page(self, request: Request) -> Response:
        return self._file("login.html", "no-cache")

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            return PlainTextResponse("There is no such file.\n", 404)
        return self._file(name, f"max-age={_ASSET_AGE_SECONDS}")

    def _file(self, name: str, caching: str) -> Response:
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        if name.endswith(".js"):
            kind = "text/javascript"
        return Response(self._files[name], headers={"Cache-Control": caching}, media_type=kind)

    async def _login(self, request: Request) -> Response:
        body = await Body.of(request)
        if self._sessions.is_open:
            return Response(status_code=204)
        if not self._sessions.is_token(body.text("token")):
            logger.warning(
                "console: a wrong token, from %s", _client(request), extra={"event": "web_login"}
            )
            return _json({"error": "That is not the token."}, 401)
        response = Response(status_code=204)
        response.set_cookie(COOKIE, self._sessions.begin(), httponly=True, samesite="strict")
        return response

    async def _logout(self, request: Request) -> Response:
        self._sessions.end(session_of(request.headers))
        response = Response(status_code=204)
        response.delete_cookie(COOKIE)
        return response

    async def _session(self, request: Request) -> Response:
        return _json(
            {
                "name": self._source.name,
                "is_watched": self._source.is_watched,
                "allows_changes": self._options.allows_changes,
                "change_token": self._sessions.change_token
                if self._options.allows_changes
                else None,
                "has_token": not self._sessions.is_open,
            }
        )

    async def _groups(self, request: Request) -> Response:
        return _json(await self._pages.groups(**Query.of(request).page()))

    async def _group(self, request: Request) -> Response:
        group_id = Query.of(request).group_id()
        page = await self._pages.group(group_id)
        if page is None:
            return _json({"error": "There is no such group."}, 404)
        return _json(page)

    async def _lag(self, request: Request) -> Response:
        return _json(await self._pages.lag(Query.of(request).group_id()))

    async def _cluster(self, request: Request) -> Response:
        return _json(await self._pages.cluster())

    async def _events(self, request: Request) -> Response:
        try:
            return self.feed.response(Query.of(request).optional_group_id())
        except TooManyError:
            text = "too many browsers watch; close some"
            return _json({"error": text}, 503, {"Retry-After": "10"})

    async def _api(self, request: Request) -> Response:
        return RedirectResponse("/api/openapi.json", 303)

    async def _openapi(self, request: Request) -> Response:
        return _json(description())

    async def _delete(self, request: Request) -> Response:
        group_id, _ = await self._change(request)
        await self._admin.delete(group_id, _client(request))
        return self._changed(group_id, {"deleted": group_id})

    async def _expel(self, request: Request) -> Response:
        group_id, body = await self._change(request)
        member_id = body.text("member_id")
        await self._admin.expel(group_id, member_id, _client(request))
        return self._changed(group_id, {"expelled": member_id})

    async def _reset(self, request: Request) -> Response:
        group_id, body = await self._change(request)
        places, to, offset = body.reset()
        done = await self._admin.reset(group_id, places, to, offset, _client(request))
        rows = [{"topic": t, "partition": p, "offset": at} for (t, p), at in done.items()]
        return self._changed(group_id, {"reset": rows})

    async def _change(self, request: Request) -> tuple[str, Body]:
        """What a change asks for. Raises BadRequestError where it may not, or is not confirmed."""
        if not self._options.allows_changes:
            raise BadRequestError("this console is read-only; --web-admin allows changes", 403)
        if not self._sessions.may_change(request.headers):
            raise BadRequestError(
                "X-Pykcoord-Change must be the change_token of /api/session, and the request come "
                "from this console",
                403,
            )
        body = await Body.of(request)
        group_id = body.text("id")
        if body.text("confirm") != group_id:
            raise BadRequestError("confirm must be the group's id")
        return group_id, body

    def _changed(self, group_id: str, answer: dict[str, Any]) -> Response:
        self._pages.forget()
        self.feed.change(group_id)
        return _json(answer)

    async def _health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _ready(self, request: Request) -> Response:
        if self._source.is_ready():
            return PlainTextResponse("ready\n")
        return PlainTextResponse("not ready\n", 503)

    async def _metrics(self, request: Request) -> Response:
        accept = request.headers.get("accept", "")
        text, kind = await asyncio.to_thread(self._source.metrics, accept)
        return Response(text, headers={"Content-Type": kind})


async def _kept_up(work: Callable[[], Awaitable[None]]) -> None:
    """Run it; where it fails, say so: the pages that are there go on."""
    try:
        await work()
    except KcoordError:
        pass  # the coordinator was closed
    except Exception:
        logger.exception("the console is not complete any more", extra={"event": "web_failure"})


def _asset(name: str) -> bytes:
    found = pkgutil.get_data("pykcoord.web", f"assets/{name}")
    assert found is not None, name
    return found


def _client(request: Request) -> str:
    return f"{request.client.host}:{request.client.port}" if request.client else "somebody"


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    text = json.dumps(value, separators=(",", ":"))
    return Response(text, status, headers, media_type="application/json")


async def _missing(request: Request, error: Exception) -> Response:
    return _json({"error": "There is no such page: see / or /api/openapi.json."}, 404)


async def _bad_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadRequestError)
    return _json({"error": str(error)}, error.status)


async def _gone(request: Request, error: Exception) -> Response:
    """The browser went in the middle of its question: nobody hears this."""
    return Response(status_code=400)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, KafkaError)
    return _json({"error": str(error), "code": error.code, "name": error.name}, 409)


async def _unavailable(request: Request, error: Exception) -> Response:
    if isinstance(error, ArgumentError):
        return _json({"error": str(error)}, 400)
    return _json({"error": str(error) or type(error).__name__}, 503)
