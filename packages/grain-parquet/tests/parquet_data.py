"""Tables for the tests, and a web server that serves ranges of files."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import functools
import http.server
import io
import os
import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


@functools.cache
def zoo(n: int) -> pa.Table:
    """Return one column for each type that this pyarrow can write, with and without nulls."""
    table = _whole_zoo(n)
    return table.select([name for name in table.column_names if _writes(table.select([name]))])


def _writes(table: pa.Table) -> bool:
    try:
        pq.write_table(table, io.BytesIO())
    except pa.ArrowNotImplementedError:
        return False
    return True


def _whole_zoo(n: int) -> pa.Table:
    holes = [i % 3 == 1 for i in range(n)]

    def nullable(values, kind=None):
        items = [None if hole else value for value, hole in zip(values, holes, strict=True)]
        return pa.array(items, kind)

    integers = list(range(n))
    return pa.table(
        {
            "int64": np.arange(n),
            "int32": pa.array(integers, pa.int32()),
            "uint8": np.arange(n).astype(np.uint8),
            "float32": np.linspace(0, 1, n).astype(np.float32),
            "float16": np.arange(n).astype(np.float16),
            "bool": [i % 2 == 0 for i in integers],
            "text": [f"text {i}" * (i % 4) for i in integers],
            "bytes": [b"\x00%d" % i for i in integers],
            "timestamp": pa.array(
                np.datetime64("2020-01-01", "us") + np.arange(n) * 86_400_000_000
            ),
            "zoned": pa.array(
                np.datetime64("2020-01-01", "ms") + np.arange(n) * 86_400_000,
                pa.timestamp("ms", tz="UTC"),
            ),
            "date": pa.array([dt.date(2020, 1, 1) + dt.timedelta(i) for i in integers]),
            "duration": pa.array([dt.timedelta(seconds=i) for i in integers]),
            "time": pa.array([dt.time(i % 24) for i in integers]),
            "decimal": pa.array([decimal.Decimal(f"{i}.50") for i in integers]),
            "category": pa.array([f"c{i % 2}" for i in integers]).dictionary_encode(),
            "struct": [{"a": i, "b": {"c": str(i)}} for i in integers],
            "ragged": [list(range(i % 5)) for i in integers],
            "pair": [[i, i + 1] for i in integers],
            "fixed": pa.array([[i, -i] for i in integers], pa.list_(pa.int32(), 2)),
            "nested": [[[1], [i]] for i in integers],
            "structs": [[{"q": i}] for i in integers],
            "map": pa.array([[("k", i)] for i in integers], pa.map_(pa.string(), pa.int32())),
            "int64_null": nullable(integers, pa.int64()),
            "big_null": nullable([2**62 + i for i in integers], pa.int64()),
            "float_null": nullable([i / 2 for i in integers]),
            "bool_null": nullable([True] * n),
            "text_null": nullable([str(i) for i in integers]),
            "date_null": nullable([dt.date(2020, 1, 1)] * n),
            "ragged_null": nullable([[i] * (i % 3) for i in integers], pa.list_(pa.int64())),
            "hole_inside": pa.array([[i, None] for i in integers], pa.list_(pa.int64())),
            "fixed_null": nullable([[i, i] for i in integers], pa.list_(pa.float32(), 2)),
            "fixed_hole": pa.array([[i, None] for i in integers], pa.list_(pa.int32(), 2)),
            "struct_null": nullable([{"a": i} for i in integers], pa.struct({"a": pa.int64()})),
            "nothing": pa.nulls(n),
        }
    )


class _RangeHandler(http.server.SimpleHTTPRequestHandler):
    """A handler that serves ranges of files, which the standard library's does not."""

    def log_message(self, *args):
        pass

    def send_head(self):
        path = self.translate_path(self.path)
        if not os.path.isfile(path):
            self.send_error(404)
            return
        size = os.path.getsize(path)
        begin, end = 0, size - 1
        requested = self.headers.get("Range")
        if requested:
            first, last = requested.removeprefix("bytes=").split("-")
            begin = int(first) if first else size - int(last)
            end = min(int(last), end) if first and last else end
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{end}/{size}")
        else:
            self.send_response(200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(end - begin + 1))
        self.end_headers()
        if self.command != "HEAD":
            with open(path, "rb") as file:
                file.seek(begin)
                self.wfile.write(file.read(end - begin + 1))
        return


@contextlib.contextmanager
def web_server(directory: str) -> Iterator[str]:
    """Serve a directory and yield the address."""
    handler = functools.partial(_RangeHandler, directory=directory)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
