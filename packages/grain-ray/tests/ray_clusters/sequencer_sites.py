"""Sites of sequencers without Ray: the sequencer runs in threads of the gateway that joins it."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
from typing import Any

from grain_ray.cluster import ActorLostError, ClusterUnavailableError
from grain_ray.payload import Payload
from grain_ray.sequencer_gateway import SequencerActor


class ThreadSequencer:
    """A sequencer that is lost at each step in `fatal`, once for all of them."""

    def __init__(self, elastic: Payload, fatal: set[int]):
        self._actor = SequencerActor(elastic, 4, [])
        self._threads = concurrent.futures.ThreadPoolExecutor(8)
        self._fatal = fatal
        self.lost = False

    def call(self, method: str, *arguments: Any) -> concurrent.futures.Future[Any]:
        if method == "take" and arguments[1][0] in self._fatal:
            self._fatal.discard(arguments[1][0])
            self.lost = True
        if self.lost:
            done: concurrent.futures.Future[Any] = concurrent.futures.Future()
            done.set_exception(ActorLostError("killed"))
            return done
        return self._threads.submit(getattr(self._actor, method), *arguments)

    def kill(self) -> None:
        self.lost = True


@dataclasses.dataclass(frozen=True)
class SequencerInFolder:
    """Joins while the folder contains a file named `up`."""

    folder: str
    elastic: Payload
    fatal: tuple[int, ...] = ()

    def __call__(self) -> SequencerInFolder:
        if not os.path.exists(os.path.join(self.folder, "up")):
            raise ClusterUnavailableError(f"no cluster in {self.folder}")
        object.__setattr__(self, "_left", set(self.fatal))
        return self

    def find(self) -> ThreadSequencer:
        (pathlib.Path(self.folder) / f"sequencer-{os.urandom(4).hex()}").touch()
        return ThreadSequencer(self.elastic, self._left)  # type: ignore[attr-defined]

    def close(self) -> None:
        """Leave nothing."""
