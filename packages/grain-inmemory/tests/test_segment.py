"""Ownership and lifetime of the memory, attaching to it, and a clean exit."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import time
import uuid

import numpy as np
import pytest

from grain_inmemory import SharedMemoryDataSource

needs_dev_shm = pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs /dev/shm")


def exists(name: str) -> bool:
    return os.path.exists(f"/dev/shm/{name}")


def run(script: str, *arguments: str) -> str:
    """Run a script with warnings as errors and nothing on stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.fixture
def name() -> str:
    return f"grain_test_{uuid.uuid4().hex[:12]}"


def test_a_name_without_elements_attaches(name):
    source = SharedMemoryDataSource(["a", "b"], name=name)
    assert source.name == name
    attached = SharedMemoryDataSource(name=name)
    assert list(attached) == ["a", "b"]
    assert repr(attached) == repr(source)
    source.unlink()
    assert list(attached) == ["a", "b"]


def test_a_name_in_use_and_a_name_unknown_are_refused(name):
    with SharedMemoryDataSource([1], name=name), pytest.raises(FileExistsError, match=name):
        SharedMemoryDataSource([2], name=name)
    with pytest.raises(FileNotFoundError, match=name):
        SharedMemoryDataSource(name=name)


def test_memory_of_another_program_is_not_mistaken_for_a_source(name):
    other = multiprocessing.shared_memory.SharedMemory(name=name, create=True, size=100)
    try:
        with pytest.raises(ValueError, match=f"{name}.*check the name"):
            SharedMemoryDataSource(name=name)
    finally:
        other.close()
        other.unlink()


class Payload:
    """An object whose unpickling leaves a trace, as an attacker's would."""

    loaded = 0

    def __reduce__(self):
        return _load, ()


def _load():
    Payload.loaded += 1
    return "loaded"


def test_nothing_that_is_attached_by_name_is_unpickled(name):
    Payload.loaded = 0
    with SharedMemoryDataSource([1, Payload()], name=name) as source:
        with pytest.raises(ValueError, match=rf"{name}.*pickled elements.*Send the source itself"):
            SharedMemoryDataSource(name=name)
        assert Payload.loaded == 0
        # The source itself, and copies that were sent to workers, are trusted.
        assert source[1] == pickle.loads(pickle.dumps(source))[1] == "loaded"


def test_a_header_that_is_a_pickle_is_not_loaded(name):
    Payload.loaded = 0
    description = pickle.dumps(Payload())
    other = multiprocessing.shared_memory.SharedMemory(name=name, create=True, size=4096)
    try:
        for magic in (b"GRAINMEM", b"GRAINME2"):
            header = struct.pack("<8sQ", magic, len(description)) + description
            other.buf[: len(header)] = header
            with pytest.raises(ValueError, match=name):
                SharedMemoryDataSource(name=name)
        assert Payload.loaded == 0
    finally:
        other.close()
        other.unlink()


def test_pickled_elements_that_appear_after_attaching_are_refused(name):
    Payload.loaded = 0
    with SharedMemoryDataSource(["a", "b"], name=name) as source:
        attached = SharedMemoryDataSource(name=name)
        copy = pickle.loads(pickle.dumps(attached))
        memory = multiprocessing.shared_memory.SharedMemory(name=name)
        try:
            contents = bytes(memory.buf)
            tag_of_text = contents.index(b"\x05\x05")
            memory.buf[tag_of_text] = 7
            for reader in (attached, copy):
                with pytest.raises(ValueError, match="pickled elements"):
                    reader[0]
                with pytest.raises(ValueError, match="pickled elements"):
                    reader.__getitems__([1, 0])
        finally:
            memory.close()
        assert source[1] == "b"


@needs_dev_shm
@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666])
def test_memory_that_other_users_can_write_is_refused(name, mode):
    with SharedMemoryDataSource([1], name=name) as source:
        pickled = pickle.dumps(source)
        os.chmod(f"/dev/shm/{name}", mode)
        for attach in (lambda: SharedMemoryDataSource(name=name), lambda: pickle.loads(pickled)):
            with pytest.raises(PermissionError, match=rf"{name}.*mode {mode:o}, expected 600"):
                attach()
        os.chmod(f"/dev/shm/{name}", 0o600)
        assert SharedMemoryDataSource(name=name)[0] == 1


@needs_dev_shm
def test_memory_of_another_user_is_refused(name, monkeypatch):
    with SharedMemoryDataSource([1], name=name) as source:
        pickled = pickle.dumps(source)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        for attach in (lambda: SharedMemoryDataSource(name=name), lambda: pickle.loads(pickled)):
            with pytest.raises(PermissionError, match=rf"{name}.*belongs to user id {os.getuid()}"):
                attach()


@needs_dev_shm
@pytest.mark.parametrize("kind", ["a FIFO", "a socket", "a directory", "a symbolic link"])
def test_a_name_of_something_else_than_memory_is_refused_at_once(name, kind):
    path = f"/dev/shm/{name}"
    with socket.socket(socket.AF_UNIX) as bound, SharedMemoryDataSource([1]) as target:
        match kind:
            case "a FIFO":
                os.mkfifo(path)
            case "a socket":
                bound.bind(path)
            case "a directory":
                os.mkdir(path)
            case "a symbolic link":
                os.symlink(target.name, path)
        try:
            # In a process of its own: opening a FIFO may wait for ever.
            script = """
                import sys
                from grain_inmemory import SharedMemoryDataSource
                try:
                    SharedMemoryDataSource(name=sys.argv[1])
                except ValueError as error:
                    print(error)
            """
            assert f"The name {name!r} belongs to {kind}, not to shared memory" in run(script, name)
        finally:
            os.rmdir(path) if kind == "a directory" else os.unlink(path)


@needs_dev_shm
def test_an_empty_segment_is_named(name):
    path = f"/dev/shm/{name}"
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    try:
        with pytest.raises(ValueError, match=f"{name!r} is empty.*check the name"):
            SharedMemoryDataSource(name=name)
    finally:
        os.unlink(path)


@pytest.mark.parametrize("name", ["", "a/b", "a\0b", "x" * 300])
def test_a_name_that_no_memory_can_have_is_not_looked_up(name):
    with pytest.raises(ValueError, match="cannot be named"):
        SharedMemoryDataSource(name=name)


_TAGS = ("tags", "|u1", (2,), 0)
_ENDS = ("ends", "<i8", (2,), 64)
_BYTES = ("bytes", "|u1", (4,), 128)
_VALUES = ("values", "<i8", (2,), 0)


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"kind": "scalars", "digest": "x"},
        {"kind": "scalars", "digest": 5, "arrays": [_VALUES]},
        {"kind": "other", "digest": "x", "arrays": [_VALUES]},
        {"kind": [], "digest": "x", "arrays": [_VALUES]},
        {"kind": "scalars", "digest": "x", "arrays": []},
        {"kind": "scalars", "digest": "x", "arrays": [_VALUES, _TAGS]},
        {"kind": "scalars", "digest": "x", "arrays": [("values", "<i4", (2,), 0)]},
        {"kind": "scalars", "digest": "x", "arrays": [("values", "<i8", (2, 2), 0)]},
        {"kind": "rows", "digest": "x", "arrays": [("values", "<i8", (), 0)]},
        {"kind": "rows", "digest": "x", "arrays": [("values", "<i8", (-1,), 0)]},
        {"kind": "rows", "digest": "x", "arrays": [("values", "<i8", (1.0,), 0)]},
        {"kind": "rows", "digest": "x", "arrays": [("values", "<i8", (2,), -64)]},
        {"kind": "rows", "digest": "x", "arrays": [("values", "<i8", (10**6,), 0)]},
        {"kind": "rows", "digest": "x", "arrays": [("values", "<i8", (2**62, 2**62), 0)]},
        {"kind": "rows", "digest": "x", "arrays": [("values", "|O", (2,), 0)]},
        {"kind": "rows", "digest": "x", "arrays": [("values", {"extension": 5}, (2,), 0)]},
        {"kind": "columns", "digest": "x", "arrays": []},
        {"kind": "columns", "digest": "x", "arrays": [_VALUES, _VALUES]},
        {"kind": "columns", "digest": "x", "arrays": [(5, "<i8", (2,), 0)]},
        {"kind": "columns", "digest": "x", "arrays": [_VALUES, ("more", "<i8", (3,), 64)]},
        {"kind": "columns", "digest": "x", "arrays": [("values", "<i8", (), 0)]},
        {"kind": "mixed", "digest": "x", "arrays": [_TAGS, _ENDS]},
        {"kind": "mixed", "digest": "x", "arrays": [("tags", "<f8", (2,), 0), _ENDS, _BYTES]},
        {"kind": "mixed", "digest": "x", "arrays": [("tags", "|u1", (1,), 0), _ENDS, _BYTES]},
        {"kind": "mixed", "digest": "x", "arrays": [_TAGS, ("ends", "<f8", (2,), 64), _BYTES]},
    ],
)
def test_each_fault_of_a_header_is_reported_when_attaching(name, header):
    with _written(name, header), pytest.raises(ValueError, match=f"{name!r} is damaged: .*again"):
        SharedMemoryDataSource(name=name)


@pytest.mark.parametrize(
    ("tags", "ends"), [([9, 5], [0, 0]), ([5, 5], [-1, 2]), ([5, 5], [2, 1]), ([5, 5], [0, 5])]
)
def test_elements_outside_of_the_memory_are_reported_when_attaching(name, tags, ends):
    header = {"kind": "mixed", "digest": "x", "arrays": [_TAGS, _ENDS, _BYTES]}
    contents = (0, bytes(tags)), (64, struct.pack("<2q", *ends))
    with _written(name, header, *contents), pytest.raises(ValueError, match=r"damaged: .*again"):
        SharedMemoryDataSource(name=name)


def test_a_header_that_is_cut_off_is_reported_when_attaching(name):
    prefix = b"GRAINME2" + struct.pack("<Q", 2**60)
    with _written(name, {}, (-1, prefix)), pytest.raises(ValueError, match=f"{name!r}.*cut off"):
        SharedMemoryDataSource(name=name)


@contextlib.contextmanager
def _written(name, header, *arrays):
    """Write a segment by hand: a header, and the contents of arrays at offsets; -1 is the start."""
    description = repr(header).encode()
    start = -(-(16 + len(description)) // 64) * 64
    memory = multiprocessing.shared_memory.SharedMemory(name=name, create=True, size=start + 192)
    try:
        prefix = b"GRAINME2" + struct.pack("<Q", len(description)) + description
        memory.buf[: len(prefix)] = prefix
        for offset, contents in arrays:
            at = 0 if offset < 0 else start + offset
            memory.buf[at : at + len(contents)] = contents
        yield
    finally:
        memory.close()
        memory.unlink()


@needs_dev_shm
def test_unlink_a_with_block_and_garbage_collection_release_the_memory():
    source = SharedMemoryDataSource([1])
    name = source.name
    assert exists(name)
    source.unlink()
    source.unlink()
    assert not exists(name)
    assert source[0] == 1

    with SharedMemoryDataSource([1]) as source:
        assert exists(source.name)
    assert not exists(source.name)
    with pytest.raises(FileNotFoundError, match="keep the source alive"):
        source[0]

    source = SharedMemoryDataSource([1])
    name = source.name
    del source
    gc.collect()
    assert not exists(name)


def test_a_closed_source_attaches_again():
    with SharedMemoryDataSource([1, 2]) as source:
        source.close()
        source.close()
        assert source[1] == 2


@needs_dev_shm
def test_leaving_a_block_with_an_attached_source_leaves_the_memory(name):
    with SharedMemoryDataSource([1], name=name):
        with SharedMemoryDataSource(name=name):
            pass
        assert exists(name)
        SharedMemoryDataSource(name=name).unlink()
        assert not exists(name)


def test_a_pickle_of_released_memory_is_an_error():
    with SharedMemoryDataSource([1]) as source:
        data = pickle.dumps(source)
    with pytest.raises(FileNotFoundError, match="keep the source alive"):
        pickle.loads(data)


def _total(source, queue):
    queue.put(sum(source.__getitems__(range(len(source)))))


@needs_dev_shm
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_attach_and_leave_the_memory_in_place(method):
    context = multiprocessing.get_context(method)
    with SharedMemoryDataSource(range(1000)) as source:
        for _ in range(2):
            queue = context.Queue()
            child = context.Process(target=_total, args=(source, queue))
            child.start()
            assert queue.get(timeout=60) == 499500
            child.join(60)
            assert child.exitcode == 0
            assert exists(source.name)


@needs_dev_shm
def test_an_unrelated_process_attaches_by_name_and_leaves_the_memory_in_place():
    with SharedMemoryDataSource({"x": np.arange(5)}) as source:
        script = """
            import sys
            from grain_inmemory import SharedMemoryDataSource
            source = SharedMemoryDataSource(name=sys.argv[1])
            print(repr(source), sum(row["x"] for row in source))
        """
        assert run(script, source.name) == f"{source!r} 10"
        assert exists(source.name)


@needs_dev_shm
@pytest.mark.parametrize(
    "ending",
    [
        "",
        "del source",
        "source.close()",
        "source.unlink()",
        "SharedMemoryDataSource(name=source.name).unlink()",
        "copy = pickle.loads(pickle.dumps(source)); row = copy[0]; source.close()",
        "keep = [source]; keep.append(keep); del source, keep",
        "child = os.fork()\nif child == 0: sys.exit(0)\nos.waitpid(child, 0); source[0]",
        "try:\n  raise KeyError\nexcept KeyError: pass",
    ],
)
def test_no_memory_and_no_message_is_left_at_exit(ending):
    script = f"""
import os, pickle, sys, warnings
from grain_inmemory import SharedMemoryDataSource
warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
source = SharedMemoryDataSource(["a", 1, None])
print(source.name, flush=True)
{ending}
"""
    assert not exists(run(script))


@needs_dev_shm
def test_no_memory_is_left_when_the_owner_is_killed():
    script = """
        import sys
        from grain_inmemory import SharedMemoryDataSource
        source = SharedMemoryDataSource(["a"])
        print(source.name, flush=True)
        sys.stdin.read()
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    name = owner.stdout.readline().strip()
    assert exists(name)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdin.close()
    owner.stdout.close()
    # The standard library's resource tracker removes it once its parent has exited.
    deadline = time.monotonic() + 60
    while exists(name) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not exists(name)
