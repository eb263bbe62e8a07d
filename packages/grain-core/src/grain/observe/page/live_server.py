"""A server of pages that are kept up to date while pipelines run, for a browser on this machine.

It listens on the loopback interface only, in a daemon thread. The address contains a random token, so
that other users of the machine do not find the page; requests whose `Host` names another machine are
refused, so that a web site cannot reach it by a name that it lets resolve to this address; and no answer
allows other origins to read it.
"""

from __future__ import annotations

import http.server
import json
import secrets
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any

from grain.observe.background_server import BackgroundServer, HttpServer
from grain.observe.page.content import PageContent
from grain.observe.page.document import document, live_parts, shape_of
from grain.observe.page.markup import tag
from grain.observe.page.preview import type_name

_HOST = "127.0.0.1"
_REQUEST_SECONDS = 10.0
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class LiveServer(BackgroundServer):
    """Serves the pages of running pipelines on the loopback interface, until it is closed.

    Args:
        pages: Returns what the pages show now, one for each pipeline; called for each request, in a
            thread of the server.
        port: The port; 0 for any that is free.

    >>> with LiveServer(lambda: [PageContent(nodes=())]) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, pages: Callable[[], Sequence[PageContent]], *, port: int = 0):
        self._pages = pages
        self._token = secrets.token_urlsafe(16)
        self._ended = False
        try:
            server = HttpServer((_HOST, port), self._handler())
        except OverflowError:
            raise ValueError(f"A port is a number from 0 to 65535, got {port!r}.") from None
        except OSError as error:
            raise OSError(
                error.errno,
                f"Port {port} of {_HOST} cannot be used ({error.strerror}). Give another port, or 0 "
                "for any that is free",
            ) from error
        super().__init__(server, "grain-live-page")

    @property
    def url(self) -> str:
        """The address of the page, for a browser on this machine."""
        return f"http://{_HOST}:{self.port}/{self._token}/"

    def end(self) -> None:
        """Show the pages as ended: the pipelines do not run any more."""
        self._ended = True

    def _handler(self) -> type[_PageHandler]:
        return type("_BoundHandler", (_PageHandler,), {"live": self})

    def answer(self, path: str, query: str) -> tuple[int, str, bytes, str | None]:
        """Return the status, type and body for a path, and the nonce of its script."""
        prefix = f"/{self._token}/"
        if path not in (prefix, f"{prefix}data.json"):
            return 404, "text/plain", b"There is no page at this address.\n", None
        pages = self._pages()
        number = _number(query, len(pages))
        content = pages[number] if pages else PageContent(nodes=(), title="No pipeline runs yet")
        if path.endswith("data.json"):
            return 200, "application/json", self._data(content, len(pages)).encode(), None
        nonce = secrets.token_urlsafe(16)
        links = _links(pages, number)
        text = document(content, live_nonce=nonce, live_shape=_shape(content, pages), links=links)
        return 200, "text/html", text.encode("utf-8"), nonce

    def _data(self, content: PageContent, count: int) -> str:
        data = {
            "parts": live_parts(content),
            "bottleneck": content.bottleneck,
            "shape": f"{count}-{shape_of(content)}",
            "ended": self._ended,
        }
        return json.dumps(data)


def _shape(content: PageContent, pages: Sequence[PageContent]) -> str:
    return f"{len(pages)}-{shape_of(content)}"


def _number(query: str, count: int) -> int:
    """Return the number of the requested page; the last one by default."""
    given = urllib.parse.parse_qs(query).get("pipeline", [""])[0]
    if given.isascii() and given.isdecimal() and len(given) < 10 and int(given) < count:
        return int(given)
    return max(count - 1, 0)


def _links(pages: Sequence[PageContent], current: int) -> Any:
    if len(pages) < 2:
        return ""
    items = [
        tag(
            "a",
            f"{number}: {page.title}",
            href=f"?pipeline={number}",
            aria_current="page" if number == current else None,
        )
        for number, page in enumerate(pages)
    ]
    return tag("nav", *items, class_="pipelines", aria_label="Pipelines")


class _PageHandler(http.server.BaseHTTPRequestHandler):
    live: LiveServer
    timeout = _REQUEST_SECONDS
    server_version = "grain"
    sys_version = ""

    def do_GET(self) -> None:
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        self._send(with_body=False)

    def _send(self, with_body: bool) -> None:
        nonce = None
        if not self._is_local():
            status, kind, body = 403, "text/plain", b"This page is for this machine only.\n"
        else:
            address = urllib.parse.urlsplit(self.path)
            try:
                status, kind, body, nonce = self.live.answer(address.path, address.query)
            except Exception as error:  # Shown in the browser; the pipelines run on.
                status, kind = 500, "text/plain"
                body = f"The page failed: {type_name(error)}: {error}\n".encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        script = f"'nonce-{nonce}'" if nonce else "'none'"
        self.send_header(
            "Content-Security-Policy",
            "default-src 'none'; img-src data:; style-src 'unsafe-inline'; connect-src 'self'; "
            f"script-src {script}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        )
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _is_local(self) -> bool:
        """Return whether a request is for this server by name, and not from a page of another origin."""
        names = {f"{host}:{self.live.port}" for host in (_HOST, "localhost")}
        if self.headers.get("Host") not in names:
            return False
        origin = self.headers.get("Origin")
        if origin is not None and origin not in {f"http://{name}" for name in names}:
            return False
        return self.headers.get("Sec-Fetch-Site") not in ("cross-site", "same-site")

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Log nothing: the output of the program is not interrupted."""
