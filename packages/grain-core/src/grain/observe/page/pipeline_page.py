"""`PipelinePage`: a page that can be written to a file, shown in a notebook, or printed as text."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import secrets

from grain.observe.page.content import PageContent
from grain.observe.page.document import document
from grain.observe.page.markup import tag
from grain.observe.page.text_view import text_view

_FRAME_STYLE = "width:100%;height:720px;border:0;border-radius:12px"


@dataclasses.dataclass(frozen=True)
class PipelinePage:
    """The page of a pipeline. A notebook shows it below the cell; `print` shows it as text.

    Attributes:
        content: What the page shows: nodes, statistics and sample elements.
        path: The file it was written to; None if it was not.
    """

    content: PageContent
    path: pathlib.Path | None = None

    @property
    def html(self) -> str:
        """The page as one HTML document, which needs no other file and no network."""
        return document(self.content)

    @property
    def text(self) -> str:
        """The page as text, for a terminal of 120 columns."""
        return text_view(self.content)

    def as_text(self, *, width: int) -> str:
        """Return the page as text with lines of at most `width` characters."""
        return text_view(self.content, width=width)

    def write(self, path: str | os.PathLike[str]) -> PipelinePage:
        """Write the page to a file, and return the page with its path.

        Args:
            path: The file. It is replaced at once, so that a browser never reads a part of it.
        """
        target = pathlib.Path(path)
        if target.is_dir():
            raise IsADirectoryError(
                f"{str(target)!r} is a folder. Give the name of a file in it, such as "
                f"{str(target / 'pipeline.html')!r}."
            )
        if not target.absolute().parent.is_dir():
            raise FileNotFoundError(
                f"The folder of {str(target)!r} does not exist. Create it first."
            )
        text = self.html.encode("utf-8")
        part = target.absolute().parent / f".grain-page-{secrets.token_hex(8)}"
        try:
            with open(part, "xb") as file:
                file.write(text)
            os.replace(part, target)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise
        return dataclasses.replace(self, path=target)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        count = len(self.content.nodes)
        where = "" if self.path is None else f", path={str(self.path)!r}"
        return f"<PipelinePage of {count} operations{where}>"

    def _repr_html_(self) -> str:
        # A frame: the style of the page and of the notebook do not meet, and nothing in it may run.
        return tag(
            "iframe",
            srcdoc=self.html,
            sandbox="",
            title=f"Pipeline {self.content.title}",
            style=_FRAME_STYLE,
        )
