import functools
import threading

import pytest

from grain.execution.processes.unpicklable import explain_unpicklable, find_unpicklable

LOCK = threading.Lock()


class Holder:
    def __init__(self, **parts):
        self.__dict__.update(parts)

    def method(self):
        return self


class Slotted:
    __slots__ = ("inner",)

    def __init__(self, inner):
        self.inner = inner


class Stateful:
    def __init__(self):
        self.fine = LOCK

    def __getstate__(self):
        return {"bad": LOCK}


def default_argument(x, lock=LOCK):
    return x


def closing_over(lock):
    return lambda x: (x, lock)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (LOCK, "job"),
        (Holder(a=1, b=LOCK), "job.b"),
        (Holder(a=Holder(b=[1, {"k": LOCK}])), "job.a.b[1]['k']"),
        (Slotted(Slotted(LOCK)), "job.inner.inner"),
        (functools.partial(print, LOCK), "job.args[0]"),
        (functools.partial(print, sep=LOCK), "job.keywords['sep']"),
        (Holder(lock=LOCK).method, "job.__self__.lock"),
        (closing_over(LOCK), "job variable 'lock'"),
        (lambda x: LOCK, "job"),
        (lambda x, lock=LOCK: x, "job.__defaults__[0]"),
        (lambda x, *, lock=LOCK: x, "job.__kwdefaults__['lock']"),
        (Stateful(), "job.__getstate__()['bad']"),
        ({(1, 2): {LOCK}}, "job[(1, 2)][0]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_deepest_part_that_cannot_be_pickled_is_found(value, path):
    # A module-level lambda of an importable module is pickled by value, its globals included.
    found, offender, owner = find_unpicklable(value, "job")
    if path == "job" and callable(value):
        path = "job global 'LOCK'"
    assert found == path
    assert offender is LOCK
    assert owner is None


def test_the_owner_is_the_last_object_on_the_way_that_has_a_name():
    value = Holder(name="outer", inner=Holder(name="inner", part=Holder(bad=LOCK)))
    path, _, owner = find_unpicklable(value, "job", lambda x: getattr(x, "name", None))
    assert (path, owner) == (".part.bad", "inner")


def test_an_object_that_refuses_by_itself_is_named_itself():
    class Refuses:
        def __reduce__(self):
            raise RuntimeError("never")

    refuses = Refuses()
    assert find_unpicklable([refuses], "job")[:2] == ("job[0]", refuses)


def test_a_circle_of_objects_is_no_trap():
    one, two = Holder(), Holder(bad=LOCK)
    one.two, two.one = two, one
    path, offender, _ = find_unpicklable(one, "job")
    assert offender is LOCK
    assert path == "job.two.bad"


def test_the_message_says_what_to_do():
    message = explain_unpicklable(Holder(cache=LOCK), "job", TypeError("no"), lambda x: None)
    assert message == (
        "Cannot send job to worker processes: job.cache is a _thread.lock, which cannot be "
        "pickled (TypeError: no). Create it inside the worker instead, in the function that uses it "
        "or in `worker_init_fn`; in a class of yours, exclude it by defining __getstate__."
    )


def test_the_message_names_the_owner_and_what_the_user_wrote():
    owner = Holder(name="Map(f)", _transform=closing_over(LOCK))
    value = {"boundary": Holder(parent=owner)}
    message = explain_unpicklable(value, "job", TypeError("no"), lambda x: getattr(x, "name", None))
    assert message.startswith(
        "Cannot send Map(f) to worker processes: variable 'lock' is a _thread.lock, which cannot"
    )
