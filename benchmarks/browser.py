"""Chromium without a window, driven through pipes: pages are opened, read, touched and photographed by a script."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["Browser", "chromium"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe"),
)
# an answer of a page: the value of an expression two frames later
FRAME = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(EXPRESSION))))"


def chromium() -> str | None:
    """Return the path of Chromium or Chrome, None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One tab of Chromium, as a context manager.

    Attributes
    ----------
    events : list of dict
        Events of the DevTools protocol, such as exceptions, entries of the console, and requests.
    """

    def __init__(self, size: tuple[int, int] = (1100, 900)) -> None:
        self.size = size
        self.events: list[dict[str, Any]] = []
        self._count = 0
        self._session: str | None = None

    def __enter__(self) -> Browser:
        path = chromium()
        if path is None:
            raise FileNotFoundError(f"browser: none of {', '.join(NAMES)} is installed; install one")
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read, self._send = os.pipe()
        self._receive, write = os.pipe()
        options = [*OPTIONS, f"--user-data-dir={self._folder.name}", f"--window-size={self.size[0]},{self.size[1]}"]
        run = ["bash", "-c", f'exec "$0" "$@" 3<&{read} 4>&{write}', path, *options, "about:blank"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(run, pass_fds=(read, write), stdout=quiet, stderr=quiet)
        os.close(read)
        os.close(write)
        self._stream = os.fdopen(self._receive, "rb")
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *reason: object) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._send)
        self._stream.close()
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of a method of the DevTools protocol."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self._send, text) :]
        while (found := self._next()).get("id") != self._count:
            self.events.append(found)
        if "error" in found:
            raise RuntimeError(f"browser: {method} failed: {found['error']['message']}")
        return found["result"]

    def _next(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self._stream.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("browser: Chromium ended; start it by hand to see why")
            text += byte
        return json.loads(text)

    def open(self, url: str) -> None:
        """Open a page and wait until it is drawn."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.evaluate(
            "new Promise((done) => document.readyState === 'complete' ? done() : addEventListener('load', done))"
        )

    def evaluate(self, expression: str, frame: bool = False) -> Any:
        """Return the value of an expression of JavaScript, of a promise its result; with `frame`, after two frames."""
        text = FRAME.replace("EXPRESSION", expression) if frame else expression
        found = self.call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"browser: {expression[:80]} failed: {found['exceptionDetails']}")
        return found["result"].get("value")

    def faults(self) -> list[str]:
        """Return exceptions, warnings and errors of the console, and requests other than files and data."""
        found = []
        for event in self.events:
            about = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(about["exceptionDetails"]["text"])
            elif event.get("method") in ("Log.entryAdded", "Runtime.consoleAPICalled"):
                found.append(json.dumps(about)[:300])
            elif event.get("method") == "Network.requestWillBeSent":
                url = about["request"]["url"]
                found += [url] if not url.startswith(("file:", "data:", "about:")) else []
        return found

    def screenshot(self, path: Path, dark: bool = False) -> None:
        """Write a picture of the whole page, in light or dark colors."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.evaluate("0", frame=True)
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))
