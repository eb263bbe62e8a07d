"""Whether a distribution's requirement on the core holds, for the specifiers such requirements use.

The core does not depend on a packaging library. What is not understood here (direct URLs, `===`,
environment markers) is left to the installer, which has judged it already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

_VERSION = re.compile(
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_n>\d*))?"
    r"(?:-(?P<post_implicit>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?"
    r"(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
    re.IGNORECASE,
)
_REQUIREMENT = re.compile(
    r"\s*(?P<name>[a-z0-9](?:[-_.a-z0-9]*[a-z0-9])?)\s*(?:\[[^\]]*\])?\s*"
    r"(?P<rest>[^;]*)(?:;(?P<marker>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_CLAUSE = re.compile(r"(?P<operator>~=|==|!=|<=|>=|<|>)\s*(?P<version>[^\s,]+)")
_PRE_LETTERS = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}


@dataclass(frozen=True, order=True)
class Version:
    """A version number that sorts as PEP 440 says; a local part (`+cpu`) is ignored."""

    epoch: int
    release: tuple[int, ...]
    pre: tuple[float, int]
    post: float
    dev: float

    @classmethod
    def parse(cls, text: str) -> Version:
        """Reads a version; raises ValueError when it is none.

        Example:
            >>> Version.parse("1.0rc1") < Version.parse("1.0") < Version.parse("1.0.1.dev3")
            True
            >>> Version.parse("1") == Version.parse("1.0.0")
            True
        """
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a version such as '1.2.0' or '2.0rc1'.")
        release = [int(part) for part in match["release"].split(".")]
        while len(release) > 1 and release[-1] == 0:
            release.pop()
        has_post = match["post"] is not None or match["post_implicit"] is not None
        has_dev = match["dev"] is not None
        pre = (inf, 0)
        if match["pre"] is not None:
            pre = (_PRE_LETTERS[match["pre"].lower()], int(match["pre_n"] or 0))
        elif has_dev and not has_post:
            pre = (-inf, 0)  # 1.0.dev1 comes before 1.0a1
        return cls(
            epoch=int(match["epoch"] or 0),
            release=tuple(release),
            pre=pre,
            post=int(match["post_implicit"] or match["post_n"] or 0) if has_post else -inf,
            dev=int(match["dev_n"] or 0) if has_dev else inf,
        )

    @property
    def is_prerelease(self) -> bool:
        """Whether it comes before the release whose number it bears."""
        return self.pre != (inf, 0) or self.dev != inf

    @property
    def is_postrelease(self) -> bool:
        """Whether it comes after the release whose number it bears."""
        return self.post != -inf

    def same_release(self, other: Version) -> bool:
        """Whether both bear one release number, pre- and post-releases aside."""
        return (self.epoch, self.release) == (other.epoch, other.release)

    def starts_with(self, epoch: int, prefix: tuple[int, ...]) -> bool:
        """Whether the release number begins with `prefix`, missing places being zero."""
        padded = self.release + (0,) * (len(prefix) - len(self.release))
        return self.epoch == epoch and padded[: len(prefix)] == prefix


def unmet(requirements: Iterable[str], name: str, version: str) -> str:
    """The first requirement on `name` that `version` does not satisfy, or an empty string.

    Example:
        >>> unmet(["numpy>=1.26", "grain-core>=2,<3"], "grain-core", "1.0.0")
        'grain-core>=2,<3'
        >>> unmet(["grain_core (>=1)"], "grain-core", "1.0.0")
        ''
    """
    try:
        present = Version.parse(version)
    except ValueError:
        return ""
    for requirement in requirements:
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None or match["marker"] or _fold(match["name"]) != _fold(name):
            continue
        if not _satisfies(present, match["rest"].strip()):
            return requirement.strip()
    return ""


def _fold(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _satisfies(present: Version, specifiers: str) -> bool:
    specifiers = specifiers.removeprefix("(").removesuffix(")")
    for clause in filter(None, (part.strip() for part in specifiers.split(","))):
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            continue
        try:
            if not _holds(present, match["operator"], match["version"]):
                return False
        except ValueError:
            continue
    return True


def _holds(present: Version, operator: str, text: str) -> bool:
    if text.endswith(".*"):
        wanted = _VERSION.fullmatch(text[:-2])
        if wanted is None or operator not in ("==", "!="):
            raise ValueError(text)
        return present.starts_with(*_prefix(wanted)) == (operator == "==")
    bound = Version.parse(text)
    match operator:
        case "==":
            return present == bound
        case "!=":
            return present != bound
        case ">=":
            return present >= bound
        case "<=":
            return present <= bound
        case "<":
            # `<2` is meant to keep out 2.0rc1 as well.
            early = present.is_prerelease and not bound.is_prerelease
            return present < bound and not (early and present.same_release(bound))
        case ">":
            # `>1` is meant to keep out 1.0.post1 as well.
            late = present.is_postrelease and not bound.is_postrelease
            return present > bound and not (late and present.same_release(bound))
        case _:
            wanted = _VERSION.fullmatch(text)
            assert wanted is not None
            epoch, release = _prefix(wanted)
            if len(release) < 2:
                raise ValueError(text)
            return present >= bound and present.starts_with(epoch, release[:-1])


def _prefix(match: re.Match[str]) -> tuple[int, tuple[int, ...]]:
    return int(match["epoch"] or 0), tuple(int(part) for part in match["release"].split("."))
