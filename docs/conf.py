"""Settings of Sphinx: Markdown by MyST, the reference from docstrings."""

from __future__ import annotations

import os
import re
from typing import Any

import grain

project = "grain"
author = "the grain contributors"
copyright = author  # noqa: A001
release = grain.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "sphinx_book_theme"
html_title = "grain"
html_static_path = ["_static"]
html_css_files = ["grain.css"]
html_theme_options: dict[str, Any] = {
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "navbar_persistent": [],
}
html_show_sphinx = False
# Where the pages are published, they link to the repository.
if repository := os.environ.get("GRAIN_REPOSITORY_URL"):
    html_theme_options |= {"repository_url": repository, "use_repository_button": True}

# Only the tutorial is a notebook; it is executed whenever the pages are built.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

# Copy commands without prompts and output.
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .go"

# Docstrings write names in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_typehints_description_target = "all"
autoclass_content = "class"
autodoc_default_options = {"members": True}
toc_object_entries_show_parents = "hide"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True


def prepare_docstring(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Rewrite the parts of a docstring that napoleon would misread."""
    del app, name, obj, options
    if what in ("attribute", "data", "property"):
        # napoleon takes text before a colon inside single backticks for the attribute's type.
        lines[:] = [re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line) for line in lines]
    for number, line in enumerate(lines):
        if line.strip() not in ("Example:", "Examples:"):
            continue
        # Plain statements become a code block; statements with prompts are one already.
        following = next((other.strip() for other in lines[number + 1 :] if other.strip()), "")
        if following and not following.startswith(">>>"):
            lines[number] = line.rstrip() + ":"
            lines.insert(number + 1, "")


def setup(app: Any) -> None:
    """Register `prepare_docstring` to run before napoleon."""
    app.connect("autodoc-process-docstring", prepare_docstring, priority=100)
