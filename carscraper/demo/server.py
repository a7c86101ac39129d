"""The stand-in's HTTP server: the API's two endpoints, robots.txt, and the controls under `/_demo/`.

The controls answer JSON and are neither journalled nor faulted; see `faults` and `churn` for scripts:

    GET  /_demo/journal         every request so far, as in `journal.Entry`
    POST /_demo/journal/reset   forget them
    GET  /_demo/counts          {"requests", "pages", "specs", "robots", "under_way"} since the last reset
    GET  /_demo/catalogue       what is alive: {"total", "ids" (newest first), "keys" ([code, year])}
    PUT  /_demo/faults          replaces the script: {"rules": [], "churn": [], "seed": 1}, or rules alone
    POST /_demo/churn           one change, made at once; answers what it did

The path below `/fw/public` is the API's. Invented: the largest page (120 listings), the default one (20),
and the bodies of errors.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import orjson
from aiohttp import web

from carscraper.demo.answers import CutOffError, finish, send, send_wrongly
from carscraper.demo.catalogue import Catalogue
from carscraper.demo.churn import Change, parse_change
from carscraper.demo.faults import Fault, FaultScript, fault_of_query, parse_rules
from carscraper.demo.journal import Journal
from carscraper.demo.search import Parameter
from scrapy_durable.exceptions import ConfigurationError

CONTROL_PATH: Final = "/_demo/"
BASE_PATH: Final = "/fw/public"
PAGE_PATH: Final = f"{BASE_PATH}/v3/vehicle"
SPEC_PATH: Final = re.compile(rf"{BASE_PATH}/v2/specs/([^/?]+)/(\d{{1,4}})")
MAX_LIMIT: Final = 120
DEFAULT_LIMIT: Final = 20
ROBOTS: Final = "User-agent: *\nAllow: /\n"


class StandIn:
    """Answers the API's requests from a catalogue, as the script of faults has it, and journals them.

    `handle` is what `aiohttp.web.Server` calls. `latency` is added to every answer, in seconds.
    """

    def __init__(self, catalogue: Catalogue, journal: Journal, latency: float = 0.0) -> None:
        self.catalogue = catalogue
        self.journal = journal
        self._latency = latency
        self._faults = FaultScript([])
        self._changes: list[Change] = []
        self._pages = 0

    def load(self, script: object) -> None:
        """Replace the script of faults and changes by `script`, the JSON that `/_demo/faults` takes.

        Raises ConfigurationError, and then leaves the script as it was.
        """
        if isinstance(script, list):
            script = {"rules": script}
        if not isinstance(script, dict) or script.keys() - {"rules", "churn", "seed"}:
            raise ConfigurationError('faults: not an object with "rules", "churn" and "seed"')
        rules = parse_rules(script.get("rules", []))
        changes = script.get("churn", [])
        if not isinstance(changes, list):
            raise ConfigurationError("churn: not a list of changes")
        self._changes = [parse_change(f"churn[{place}]", change) for place, change in enumerate(changes)]
        self._faults = FaultScript(rules, script.get("seed", 1))
        self._pages = 0
        self._make_due_changes()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, whatever it is."""
        target = request.raw_path
        if target.startswith(CONTROL_PATH):
            return await self._control(request)
        entry = self.journal.begin(request.method, target, request.headers.get("User-Agent", ""))
        try:
            fault = self._faults.choose(target) or _fault_of(target)
            entry.fault = fault.kind if fault else None
            response = await self._answer(request, target, fault)
            entry.status = response.status
        except ConnectionError as lost:
            entry.status = lost.status if isinstance(lost, CutOffError) else None
            return web.Response()
        except ConfigurationError as refused:
            return await send(request, 400, _error(str(refused)))
        finally:
            self.journal.end(entry)
        return response

    async def _answer(self, request: web.BaseRequest, target: str, fault: Fault | None) -> web.StreamResponse:
        if self._latency:
            await asyncio.sleep(self._latency)
        if target.partition("?")[0] == "/robots.txt" and fault is None:
            return await finish(request, web.Response(text=ROBOTS))
        status, document = self._document(request.host, target)
        if fault is not None and fault.kind == "endless":
            document, fault = self._endless(request.host, target, document, fault), None
        if fault is None:
            return await send(request, status, document)
        return await send_wrongly(request, fault, status, document)

    def _document(self, host: str, target: str) -> tuple[int, Any]:
        """The status and the JSON that the API has for a raw `path?query`."""
        path, _, query = target.partition("?")
        if path == PAGE_PATH:
            return self._page(f"http://{host}{BASE_PATH}", parse_qsl(query, keep_blank_values=True))
        wanted = SPEC_PATH.fullmatch(path)
        document = self.catalogue.spec(unquote(wanted[1]), int(wanted[2])) if wanted else None
        return (404, _error("not found")) if document is None else (200, document)

    def _endless(self, host: str, target: str, page: Any, fault: Fault) -> Any:
        """A listing page that does not know its end; see `FAULTS`."""
        offset, limit = (
            int(re.findall(rf"page%5B{name}%5D=(\d+)", target)[0]) for name in ("offset", "limit")
        )
        options = fault.options

        def at(other: int) -> str:
            return re.sub(r"(page%5Boffset%5D=)\d+", rf"\g<1>{other}", target)

        if options["listings"]:
            _, same = self._document(host, at(offset % options["listings"]))
            page["data"] = same["data"]
        if options["next"]:
            page["links"]["next"] = f"http://{host}{at(offset + limit)}"
        if options["total"]:
            page["meta"]["total"] = options["total"]
        return page

    def _page(self, base_url: str, query: list[Parameter]) -> tuple[int, Any]:
        numbers = {name: value for name, value in query if name in ("page[offset]", "page[limit]")}
        try:
            offset, limit = (
                int(numbers.get("page[offset]", 0)),
                int(numbers.get("page[limit]", DEFAULT_LIMIT)),
            )
            if offset < 0 or limit < 1:
                return 400, _error("page[offset] starts at 0, page[limit] at 1")
            document = self.catalogue.page(offset, min(limit, MAX_LIMIT), base_url, query)
        except ValueError as error:
            return 400, _error(str(error))
        self._pages += 1
        self._make_due_changes()
        return 200, document

    def _make_due_changes(self) -> None:
        due = [change for change in self._changes if change.after_pages <= self._pages]
        self._changes = [change for change in self._changes if change.after_pages > self._pages]
        for change in due:
            change.apply(self.catalogue)

    async def _control(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            status, document = self._controlled(request.method, request.raw_path, await request.read())
        except (ConfigurationError, orjson.JSONDecodeError) as refused:
            status, document = 400, _error(str(refused))
        return await send(request, status, document)

    def _controlled(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Do what a request below `/_demo/` asks for; returns the status and JSON of its answer."""
        if (method, path) == ("GET", "/_demo/journal"):
            return 200, self.journal.entries
        if (method, path) == ("POST", "/_demo/journal/reset"):
            self.journal.reset()
            return 200, {}
        if (method, path) == ("GET", "/_demo/counts"):
            return 200, self._counts()
        if (method, path) == ("GET", "/_demo/catalogue"):
            catalogue = self.catalogue
            return 200, {"total": catalogue.total, "ids": catalogue.ids, "keys": sorted(catalogue.keys)}
        if (method, path) == ("PUT", "/_demo/faults"):
            self.load(orjson.loads(body))
            return 200, {}
        if (method, path) == ("POST", "/_demo/churn"):
            return 200, parse_change("churn", orjson.loads(body)).apply(self.catalogue)
        return 404, _error("no such control")

    def _counts(self) -> dict[str, int]:
        targets = [entry.target for entry in self.journal.entries]
        return {
            "requests": len(targets),
            "pages": sum(target.startswith(PAGE_PATH) for target in targets),
            "specs": sum(SPEC_PATH.match(target) is not None for target in targets),
            "robots": sum(target.startswith("/robots.txt") for target in targets),
            "under_way": sum(entry.ended is None for entry in self.journal.entries),
        }


def _fault_of(target: str) -> Fault | None:
    if "fault=" not in target:
        return None
    asked = dict(parse_qsl(target.partition("?")[2])).get("fault")
    return None if asked is None else fault_of_query(asked)


def _error(detail: str) -> dict[str, Any]:
    return {"errors": [{"detail": detail}]}
