"""What is answered to which address."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from scrapy_durable.dashboard.crawl import Crawl
from scrapy_durable.dashboard.guard import COOKIE, Sessions, check_host, check_origin, headers
from scrapy_durable.dashboard.letters import groups_of, read_letters, replay_of_reason
from scrapy_durable.dashboard.paging import Paging
from scrapy_durable.dashboard.rendering import HERE, Templates
from scrapy_durable.dashboard.tabs import Asked, Tab
from scrapy_durable.exceptions import DurableError, cause
from scrapy_durable.status.life import key_of, life_lines

logger = logging.getLogger(__name__)

_LARGEST_FORM = 64 * 1024
"""Bytes."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Access:
    """Who may do what."""

    sessions: Sessions
    is_local: bool
    """Only this machine reaches the page: whoever does may read."""


class Pages:
    """The handlers, over one crawl."""

    def __init__(self, crawl: Crawl, access: Access, tabs: Sequence[Tab]) -> None:
        self._crawl = crawl
        self._access = access
        self._tabs = {tab.path: tab for tab in tabs}
        self._templates = Templates(crawl.spider, tabs)

    def application(self) -> web.Application:
        """All of it."""
        app = web.Application(middlewares=[self._guard], client_max_size=_LARGEST_FORM)
        app.add_routes(
            [
                web.get("/", self._first),
                web.get("/live", self._live),
                web.get("/dead", self._dead),
                web.post("/dead/replay", self._replay),
                web.get("/leases", self._leases),
                web.get("/requests/{key}", self._request),
                web.get("/tabs/{path}", self._tab),
                web.get("/login", self._login),
                web.post("/login", self._log_in),
                web.post("/logout", self._log_out),
                web.static("/static", HERE / "static"),
            ]
        )
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The one border: what may not be asked is refused, and what goes wrong is said in a page of one line."""
        request["nonce"] = secrets.token_urlsafe(18)
        try:
            self._check(request)
            response = await handler(request)
        except web.HTTPException as error:
            response = (
                error
                if error.status < 400
                else self._wrong(request, error.status, error.text or error.reason)
            )
        except (DurableError, OSError) as error:
            response = self._wrong(request, 503, cause(error) if isinstance(error, OSError) else str(error))
        except Exception:
            logger.exception("A page of the dashboard failed: %s", request.path)
            response = self._wrong(request, 500, "This page failed; the log of scrapy dashboard says how.")
        response.headers.update(headers(request["nonce"]))
        return response

    def _check(self, request: web.Request) -> None:
        if self._access.is_local:
            check_host(request)
        elif not self._access.sessions.has(request) and not _is_open_to_all(request.path):
            if "HX-Request" in request.headers:  # for a part of a page: the whole of it has to go there
                raise web.HTTPNoContent(headers={"HX-Redirect": "/login"})
            raise web.HTTPSeeOther("/login")
        if request.method not in ("GET", "HEAD"):
            check_origin(request)

    def _page(self, request: web.Request, name: str, status: int = 200, **values: Any) -> web.Response:
        return self._answer(self._templates.render(name, **self._of(request), **values), status)

    def _of(self, request: web.Request) -> dict[str, Any]:
        """What every template is given."""
        return {
            "nonce": request["nonce"],
            "path": request.path,
            "may_act": self._access.sessions.has(request),
            "can_log_in": self._access.sessions.possible,
        }

    def _answer(self, text: str, status: int = 200) -> web.Response:
        return web.Response(text=text, status=status, content_type="text/html")

    def _wrong(self, request: web.Request, status: int, what: str) -> web.Response:
        text = self._templates.render("wrong.html", **self._of(request), status=status, what=what)
        return self._answer(text, status)

    async def _first(self, request: web.Request) -> web.Response:
        return self._page(request, "first.html", moment=await self._crawl.moment())

    async def _live(self, request: web.Request) -> web.Response:
        return self._page(request, "live.html", moment=await self._crawl.moment())

    async def _dead(self, request: web.Request) -> web.Response:
        reason, queued = request.query.get("reason", ""), request.query.get("queued", "")
        async with self._crawl.frontier() as frontier:
            found = await read_letters(frontier)
        chosen = [letter for letter in found.letters if not reason or letter.kind == reason]
        paging = Paging.of(request.query.get("page"), len(chosen))
        return self._page(
            request,
            "dead.html",
            found=found,
            groups=groups_of(found.letters),
            letters=paging.cut(chosen),
            paging=paging,
            reason=reason,
            queued=queued if queued.isdecimal() else "",
        )

    async def _leases(self, request: web.Request) -> web.Response:
        async with self._crawl.frontier() as frontier:
            total = 0 if frontier is None else (await frontier.status()).total.leased
            paging = Paging.of(request.query.get("page"), total)
            leases = [] if frontier is None else await frontier.leases(paging.last)
        now = (await self._crawl.moment()).report.status.now
        return self._page(request, "leases.html", leases=paging.cut(leases), paging=paging, now=now)

    async def _request(self, request: web.Request) -> web.Response:
        named = request.match_info["key"]
        key = key_of(named)
        async with self._crawl.frontier() as frontier:
            element = None if frontier is None or key is None else await frontier.find(key)
            now = 0.0 if frontier is None else (await frontier.status()).now
        if element is None:
            raise web.HTTPNotFound(text=f"This crawl has no request {named}.")
        return self._page(
            request,
            "request.html",
            element=element,
            lines=list(life_lines(element, now))[element.state != "done" :],
            now=now,
        )

    async def _replay(self, request: web.Request) -> web.Response:
        """One dead letter, those of a reason, or all of them."""
        if not self._access.sessions.has(request):
            raise web.HTTPForbidden(text="Log in with the token first; nothing was done.")
        form = await request.post()
        key, reason = str(form.get("key", "")), str(form.get("reason", ""))
        if not key and not reason and form.get("all") != "1":
            raise web.HTTPBadRequest(text="Name a key or a reason, or all=1; nothing was done.")
        async with self._crawl.frontier() as frontier:
            if frontier is None:
                number = 0
            elif key:
                number = await frontier.retry_dead([one for one in (key_of(key),) if one is not None])
            elif reason:
                number = await replay_of_reason(frontier, reason)
            else:
                number = await frontier.retry_dead()
        raise web.HTTPSeeOther(f"/dead?queued={number}")

    async def _tab(self, request: web.Request) -> web.Response:
        tab = self._tabs.get(request.match_info["path"])
        if tab is None:
            raise web.HTTPNotFound(text="There is no such page.")

        def render(name: str, **values: Any) -> str:
            return self._templates.render(name, tab.path, title=tab.title, **self._of(request), **values)

        query = {name: request.query[name] for name in request.query}
        return self._answer(await tab.render(Asked(query, render)))

    async def _login(self, request: web.Request) -> web.Response:
        return self._page(request, "login.html", is_wrong=False)

    async def _log_in(self, request: web.Request) -> web.Response:
        token = (await request.post()).get("token")
        session = self._access.sessions.open(token) if isinstance(token, str) else None
        if session is None:
            return self._page(request, "login.html", 403, is_wrong=True)
        response = web.HTTPSeeOther("/")
        response.set_cookie(
            COOKIE, session, httponly=True, samesite="Strict", path="/", secure=request.secure
        )
        raise response

    async def _log_out(self, request: web.Request) -> web.Response:
        self._access.sessions.close(request)
        response = web.HTTPSeeOther("/")
        response.del_cookie(COOKIE, path="/")
        raise response


def _is_open_to_all(path: str) -> bool:
    """What has to be seen to log in."""
    return path == "/login" or path.startswith("/static/")
