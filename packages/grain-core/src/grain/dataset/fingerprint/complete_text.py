"""Texts of objects that an earlier interrupt of a `repr` cannot shorten.

The `repr` of a dataclass, and every one that `reprlib.recursive_repr` guards, notes the objects that are
being shown, by thread, and shows an object inside of itself as `...`. An interrupt between the note and the
code that removes it leaves the note in place: from then on that thread shows the object as `...` only. A
state must not have that text: no other process accepts it.
"""

from __future__ import annotations

import _thread
import contextvars
from collections.abc import Callable
from typing import Any

_GUARDED = "..."
# A `repr` may need a lock that the caller holds; it must not wait for ever.
_MOST_SECONDS = 10.0


def complete_text(value: Any, form: Callable[[Any], str] = repr) -> str:
    """Return the text of an object, without `...` that an interrupt has left in this thread.

    A text with `...` is computed again in a new thread, which has no notes, and which no interrupt
    reaches. Other texts are computed once, in this thread.

    Args:
        value: The object.
        form: Returns its text: `repr` or `str`.

    >>> complete_text([1, 2])
    '[1, 2]'
    """
    text = form(value)
    return _text_in_new_thread(value, form, text) if _GUARDED in text else text


def _text_in_new_thread(value: Any, form: Callable[[Any], str], otherwise: str) -> str:
    context = contextvars.copy_context()  # With the print options of NumPy.
    texts: list[str] = []
    errors: list[BaseException] = []
    done = _thread.allocate_lock()

    def compute() -> None:
        try:
            texts.append(context.run(form, value))
        except BaseException as error:
            errors.append(error)
        finally:
            done.release()

    done.acquire()
    try:
        # Not `threading`: some interrupts of its `start` come out as another error.
        _thread.start_new_thread(compute, ())
    except RuntimeError:  # The system or an exiting interpreter refuses threads.
        return otherwise
    done.acquire(timeout=_MOST_SECONDS)
    if errors:
        raise errors[0]
    return texts[0] if texts else otherwise
