"""The parts of a URI that choose a plugin: its scheme, or the suffix of its file name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_SHARD = re.compile(r"-[\d?*]+-of-[\d?*]+$")


@dataclass(frozen=True)
class Uri:
    """A URI, split into scheme and rest.

    Example:
        >>> Uri.parse("parquet:///data/*.parquet")
        Uri(text='parquet:///data/*.parquet', scheme='parquet', rest='/data/*.parquet')
        >>> Uri.parse("data/x.parquet").scheme
        ''
    """

    text: str
    scheme: str
    rest: str

    @classmethod
    def parse(cls, text: str) -> Uri:
        """Split `text`; a text without `scheme://` is a path."""
        match = _SCHEME.fullmatch(text)
        if match is None:
            return cls(text, "", text)
        return cls(text, match["scheme"].lower(), match["rest"])

    def local_path(self) -> str:
        """Return the path of a `file://` URI: as written or, if no such file exists, unquoted.

        Example:
            >>> Uri.parse("file:///data/my%20file.parquet").local_path()
            '/data/my file.parquet'
        """
        path = (
            self.rest.removeprefix("localhost") if self.rest.startswith("localhost/") else self.rest
        )
        # Users put unquoted paths with percent signs after `file://`; programs quote.
        return path if os.path.lexists(path) else unquoted(path)

    def readings(self) -> Iterator[tuple[str, str]]:
        """Yield the ways to split it into a plugin's scheme and the path for that plugin.

        Example:
            >>> list(Uri.parse("parquet+s3://bucket/key").readings())
            [('parquet+s3', 'bucket/key'), ('parquet', 's3://bucket/key')]
        """
        if not self.scheme:
            return
        yield self.scheme, self.rest
        plugin, plus, transport = self.scheme.partition("+")
        if plus:
            yield plugin, self.local_path() if transport == "file" else f"{transport}://{self.rest}"

    def naming_texts(self) -> list[str]:
        """Return the texts of which one is in the scheme or suffix of the plugin that opens it.

        Example:
            >>> Uri.parse("parquet+s3://bucket/x.tar.GZ-00-of-10").naming_texts()
            ['parquet+s3', 'parquet', '.tar', '.gz']
        """
        schemes = [scheme for scheme, _ in self.readings()]
        return [*schemes, *re.findall(r"\.[a-z0-9_]+", re.split(r"[/\\]", self.rest)[-1].lower())]

    def suffix(self, suffixes: Iterable[str]) -> str:
        """Return the longest of `suffixes` that the file name ends with, or an empty string.

        Shard numbers, a trailing wildcard and, in a URI, query and fragment are ignored.

        Example:
            >>> Uri.parse("gs://b/mnist-train.array_record-00000-of-00010").suffix([".array_record"])
            '.array_record'
            >>> Uri.parse("https://host/x.PARQUET?token=1").suffix([".parquet"])
            '.parquet'
        """
        by_length = sorted(suffixes, key=len, reverse=True)
        readings = [self.rest]
        if self.scheme:
            readings.append(re.split(r"[?#]", self.rest, maxsplit=1)[0])
        for reading in readings:
            file_name = re.split(r"[/\\]", reading)[-1].lower()
            for candidate in (file_name, file_name.rstrip("*"), _SHARD.sub("", file_name)):
                for suffix in by_length:
                    if candidate.endswith(suffix):
                        return suffix
        return ""


def unquoted(path: str) -> str:
    """Return a path with its percent escapes decoded.

    Example:
        >>> unquoted("/my%20file")
        '/my file'
    """
    # As `urllib.parse.unquote`, which takes longer to import than everything else here.
    return re.sub(
        r"(?:%[0-9a-fA-F]{2})+",
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "surrogateescape"),
        path,
    )
