"""A headless Chromium that is driven through pipes, without any library."""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import os
import pathlib
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-pipe",
)
SECONDS = 60.0


def find() -> str | None:
    """Return the path of an installed Chromium."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Tab:
    """One tab: commands of the DevTools protocol, and the events that arrived."""

    def __init__(self, write: int, read: int):
        self._write, self._read = write, read
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._session: str | None = None
        self.events: collections.deque[dict[str, Any]] = collections.deque()

    def attach(self) -> None:
        """Open a tab, and receive its events."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> Any:
        """Send a command, and return its result."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            received = self._receive(deadline)
            if received.get("id") == number:
                if "error" in received:
                    raise RuntimeError(f"{method}: {received['error']}")
                return received["result"]
            self.events.append(received)

    def _receive(self, deadline: float) -> dict[str, Any]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._read, selectors.EVENT_READ)
            while b"\0" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError("The browser did not answer.")
                data = os.read(self._read, 1 << 20)
                if not data:
                    raise EOFError("The browser has ended.")
                self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def open(self, url: str) -> None:
        """Load a page, and wait until it is complete."""
        self.events.clear()
        self.send("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def show(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window, and the preferred colours."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + SECONDS
        while not self.evaluate(f"Boolean({expression})"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{expression} did not become true.")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        shared = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **shared)
        self.send("Input.dispatchKeyEvent", type="keyUp", **shared)

    def problems(self) -> list[str]:
        """Return errors of scripts, messages of the console, and violations of the policy so far."""
        self.evaluate("1")  # Receives what has been sent before.
        methods = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        dialogs = ("Page.javascriptDialogOpening",)
        return [json.dumps(e["params"]) for e in self.events if e["method"] in methods + dialogs]

    def requests(self) -> list[str]:
        """Return the addresses that were requested, without those of data in the page."""
        self.evaluate("1")
        sent = [e for e in self.events if e["method"] == "Network.requestWillBeSent"]
        urls = [event["params"]["request"]["url"] for event in sent]
        return [url for url in urls if not url.startswith("data:")]


@contextlib.contextmanager
def chromium(path: str) -> Iterator[Tab]:
    """Run a browser inside of a block."""
    to_browser, write = os.pipe()
    read, from_browser = os.pipe()

    def use_descriptors() -> None:
        # The protocol: the browser reads from descriptor 3 and writes to descriptor 4.
        os.dup2(to_browser, 100)
        os.dup2(from_browser, 101)
        os.dup2(100, 3)
        os.dup2(101, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [path, *FLAGS, f"--user-data-dir={pathlib.Path(folder, 'data')}", "about:blank"]
        starting: Callable[[], None] = use_descriptors
        process = subprocess.Popen(
            command,
            preexec_fn=starting,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            tab = Tab(write, read)
            tab.attach()
            yield tab
        finally:
            process.kill()
            process.wait()
            os.close(write)
            os.close(read)
