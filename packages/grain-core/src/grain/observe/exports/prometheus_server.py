"""An endpoint that Prometheus scrapes, served by a daemon thread of this process.

It listens on the loopback address by default, answers GET requests for `/metrics` alone, and
refuses requests whose Host header does not name this machine while it listens on loopback: a web page that
rebinds its name to 127.0.0.1 cannot read the metrics.
"""

from __future__ import annotations

import http.server
import ipaddress
from collections.abc import Callable, Iterable
from typing import Any

from grain.observe.background_server import BackgroundServer, HttpServer
from grain.observe.exports.metric_families import metric_families
from grain.observe.exports.prometheus_text import CONTENT_TYPE, prometheus_text
from grain.observe.exports.subjects import collector
from grain.observe.statistics import PipelineStatistics

_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
# The port of google/grain 0.2.18.
DEFAULT_PORT = 9431


class PrometheusServer(BackgroundServer):
    """A running endpoint; `close()`, or the end of a `with` block, stops it.

    Attributes:
        address: The address that it listens on.
        port: The port, chosen by the system if 0 was given.
    """

    def __init__(
        self,
        collect: Callable[[], Iterable[PipelineStatistics]],
        address: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
    ):
        try:
            server = HttpServer((address, port), _handler(collect, _is_loopback(address)))
        except OSError as error:
            error.add_note(
                f"grain: could not listen on {address} port {port} for Prometheus. Choose another port; "
                "0 lets the system choose a free one."
            )
            raise
        self.address = address
        super().__init__(server, "grain-prometheus")

    @property
    def url(self) -> str:
        """The address that Prometheus scrapes."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}/metrics"

    def __repr__(self) -> str:
        return f"PrometheusServer({self.url!r})"


def serve_prometheus(
    subject: Any = None, *, address: str = "127.0.0.1", port: int = DEFAULT_PORT
) -> PrometheusServer:
    """Serve the metrics of observed pipelines for Prometheus, in a thread of this process.

    Args:
        subject: An observed iterator, or an observation; None for all observed pipelines of the process.
        address: The address to listen on. On any but a loopback address, everyone who reaches this
            machine reads the metrics.
        port: The port; 0 lets the system choose a free one.

    >>> with serve_prometheus(port=0) as server:
    ...     server.url.endswith("/metrics")
    True
    """
    return PrometheusServer(collector(subject), address, port)


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _handler(
    collect: Callable[[], Iterable[PipelineStatistics]], is_local: bool
) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        server_version = "grain"
        sys_version = ""
        timeout = 10

        def do_GET(self) -> None:
            host = self.headers.get("Host", "").lower()
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if is_local and name not in _LOCAL_NAMES:
                self._answer(403, "This endpoint answers requests for localhost only.\n")
            elif self.path.partition("?")[0] != "/metrics":
                self._answer(404, "The metrics are at /metrics.\n")
            else:
                try:
                    text = prometheus_text(metric_families(collect()))
                except Exception as error:
                    self._answer(500, f"The metrics could not be collected: {error!r}\n")
                else:
                    self._answer(200, text, CONTENT_TYPE)

        def _answer(self, status: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
            body = text.encode("utf-8", "replace")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Write nothing: a scrape every few seconds is no news."""

    return Handler
