"""Threads that run the same function, for the tests of every plugin."""

from __future__ import annotations

import threading
from collections.abc import Callable


def run_in_threads(function: Callable[[int], None], count: int) -> None:
    """Call `function` with 0 to `count - 1` in as many threads, and raise the first error."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            function(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
