"""A real Chromium, driven over its DevTools protocol: pages looked at, at any width, light and dark.

async with browser() as chromium:
    page = await chromium.open("http://127.0.0.1:6080/")
    await page.look(width=390, height=844, dark=True)
    png = await page.picture()
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
_PORT_FILE = "DevToolsActivePort"
_LONGEST = 64 * 1024**2
"""Bytes of a message: a picture is one."""


class Page:
    """One tab; what it asked for and complained of is kept."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: str) -> None:
        self.asked: list[str] = []
        """Addresses of all its requests, in order."""
        self.complaints: list[str] = []
        """Errors and warnings of its console, and what its scripts have thrown."""
        self._socket = socket
        self._session = session
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.create_task(self._read())

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol; raises `RuntimeError` with what the browser says against it."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json(
            {"id": self._number, "method": method, "params": parameters, "sessionId": self._session}
        )
        found = await asyncio.wait_for(answer, 60)
        if "error" in found:
            raise RuntimeError(f"{method}: {found['error']}")
        result: dict[str, Any] = found["result"]
        return result

    async def go(self, url: str) -> None:
        """Open that address, and wait until it is loaded."""
        await self.call("Page.navigate", url=url)
        while await self.run("document.readyState") != "complete":
            await asyncio.sleep(0.05)

    async def look(self, *, width: int, height: int, dark: bool = False) -> None:
        """At that width and height in CSS pixels, with that preference of colours."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if width < 600 else 1,
            mobile=width < 600,
        )
        wanted = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[wanted])
        await asyncio.sleep(0.3)  # so that it is drawn

    async def run(self, script: str) -> Any:
        """The value of a JavaScript expression, or of what it promises."""
        found = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("text", "it has thrown"))
        return found["result"].get("value")

    async def text(self) -> str:
        """All that it shows, as text."""
        return str(await self.run("document.body.innerText"))

    async def picture(self, *, whole: bool = False) -> bytes:
        """A PNG of what is to be seen; `whole`: of what is below that, too."""
        found = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(found["data"])

    async def _read(self) -> None:
        async for message in self._socket:
            found = json.loads(message.data)
            if "id" in found:
                if (answer := self._answers.pop(found["id"], None)) is not None and not answer.done():
                    answer.set_result(found)
                continue
            event = found.get("params", {})
            match found.get("method"):
                case "Network.requestWillBeSent":
                    self.asked.append(event["request"]["url"])
                case "Runtime.exceptionThrown":
                    self.complaints.append(str(event["exceptionDetails"].get("text")))
                case "Runtime.consoleAPICalled" if event["type"] in ("error", "warning", "assert"):
                    self.complaints.append(" ".join(str(one.get("value")) for one in event["args"]))
                case "Log.entryAdded" if event["entry"]["level"] in ("error", "warning"):
                    self.complaints.append(event["entry"]["text"])


class Chromium:
    """A browser that runs."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address
        self._sockets: list[aiohttp.ClientWebSocketResponse] = []

    async def open(self, url: str) -> Page:
        """A tab of its own, at that address."""
        socket = await self._session.ws_connect(self._address, max_msg_size=_LONGEST)
        self._sockets.append(socket)
        target = await _ask(socket, "Target.createTarget", url="about:blank")
        attached = await _ask(socket, "Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = Page(socket, attached["sessionId"])
        for domain in ("Page", "Runtime", "Network", "Log"):
            await page.call(f"{domain}.enable")
        await page.go(url)
        return page

    async def close(self) -> None:
        """Let go of all tabs."""
        for socket in self._sockets:
            await socket.close()


async def _ask(socket: aiohttp.ClientWebSocketResponse, method: str, **parameters: Any) -> dict[str, Any]:
    """A command to the browser itself, before a page reads what it says."""
    await socket.send_json({"id": 0, "method": method, "params": parameters})
    while True:
        found = await socket.receive_json()
        if found.get("id") == 0:
            result: dict[str, Any] = found["result"]
            return result


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Chromium]:
    """Debian's Chromium without a screen, ended with the block. Raises `RuntimeError` when there is none."""
    binary = shutil.which("chromium")
    if binary is None:
        raise RuntimeError("there is no chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process = await asyncio.create_subprocess_exec(
            *(binary, *_FLAGS, f"--user-data-dir={home}", "about:blank"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port_file = Path(home) / _PORT_FILE
            while not port_file.exists() or len(port_file.read_text().split()) < 2:
                if process.returncode is not None:
                    raise RuntimeError(f"chromium has ended with {process.returncode}")
                await asyncio.sleep(0.1)
            port, path = port_file.read_text().split()
            async with aiohttp.ClientSession() as session:
                chromium = Chromium(session, f"ws://127.0.0.1:{port}{path}")
                yield chromium
                await chromium.close()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
