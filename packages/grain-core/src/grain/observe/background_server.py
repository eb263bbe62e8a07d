"""HTTP servers in a daemon thread of this process, such as that of live pages and that of metrics."""

from __future__ import annotations

import http.server
import socket
import threading
from types import TracebackType
from typing import Any, Self


class HttpServer(http.server.ThreadingHTTPServer):
    """A server whose requests neither delay its end nor write to the program's output."""

    daemon_threads = True
    # Connections that a browser keeps open do not delay the shutdown.
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: Any):
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # Not the method of the base class, which looks up the name of the host: that can take seconds.
        if self.allow_reuse_address:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that the client has closed."""


class BackgroundServer:
    """A running server; `close()`, or the end of a `with` block, stops it.

    Attributes:
        port: The port, chosen by the system if 0 was given.
    """

    def __init__(self, server: HttpServer, thread_name: str):
        self._server = server
        self.port: int = server.server_address[1]
        # `serve_forever` polls for the end this often, so `close` takes at most as long.
        self._thread = threading.Thread(
            target=server.serve_forever,
            kwargs={"poll_interval": 0.05},
            name=thread_name,
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening and end the thread; idempotent."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
