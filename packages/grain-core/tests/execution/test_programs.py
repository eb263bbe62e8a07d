"""Programs as people write them: no guard around `__main__`, notebooks, stdin, jax beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..helpers.processes import finish

# Classes and functions of `__main__`, with no guard around what starts workers.
_PROGRAM = """
print("begins")

SCALE = 3

class Source:
    def __len__(self):
        return 40
    def __getitem__(self, index):
        return index * SCALE

class Pairs(grain.IterDataset):
    def __iter__(self):
        return PairsIterator(iter(self._parent))

class PairsIterator(grain.DatasetIterator):
    def __next__(self):
        return next(self._parent), next(self._parent)
    def get_state(self):
        return self._parent.get_state()
    def set_state(self, state):
        self._parent.set_state(state)

class Scale(grain.transforms.Map):
    def map(self, element):
        return element * SCALE

class TooMuch(Exception):
    pass

def refuse(x):
    if x == 30:
        raise TooMuch(x)
    return x

class Lines(grain.IterDataset):
    def __init__(self, first):
        super().__init__()
        self.first = first
    def __iter__(self):
        return LinesIterator(self.first)

class LinesIterator(grain.DatasetIterator):
    def __init__(self, first):
        super().__init__()
        self.first, self.place = first, 0
    def __next__(self):
        if self.place == 4:
            raise StopIteration
        self.place += 1
        return self.first + self.place
    def get_state(self):
        return {"place": self.place}
    def set_state(self, state):
        self.place = state["place"]

two = MultiprocessingOptions(2)
rows = MapDataset.source(Source()).shuffle(1).map(lambda x: x + 1).to_iter_dataset()
for ds in [
    rows.batch(4),
    Pairs(rows).map(lambda pair: pair[0] - pair[1]),
    rows.filter(lambda x: x % 2).batch(3).map(lambda batch: int(batch.sum())),
    grain.experimental.InterleaveIterDataset([Lines(10), Lines(20), Lines(30)], cycle_length=2),
]:
    expected, found = list(ds), list(ds.mp_prefetch(two))
    assert str(found) == str(expected), (found, expected)

loader = lambda count: grain.DataLoader(
    data_source=Source(),
    sampler=grain.IndexSampler(num_records=40, num_epochs=1, shuffle=True, seed=3),
    operations=[Scale(), grain.Batch(4)],
    worker_count=count,
)
assert str(list(loader(2))) == str(list(loader(0)))

with iter(MapDataset.source(Source()).map(refuse).to_iter_dataset().mp_prefetch(two)) as iterator:
    try:
        list(iterator)
    except TooMuch as error:
        assert error.args == (30,)
    else:
        raise AssertionError("no error")
print("ends")
"""


def test_a_script_without_a_guard_around_main_runs_once(script: Any) -> None:
    assert finish(script(_PROGRAM)) == (0, "begins\nends\n", "")


def test_a_program_from_stdin_runs_as_in_a_notebook(script: Any) -> None:
    assert finish(script(_PROGRAM, stdin=True)) == (0, "begins\nends\n", "")


def test_a_program_given_on_the_command_line_runs() -> None:
    code = (
        "import grain\n"
        "class Own(grain.transforms.Map):\n"
        "    def map(self, x):\n"
        "        return x * 2\n"
        "ds = grain.MapDataset.range(9).map(Own()).map(lambda x: x + 1).to_iter_dataset()\n"
        "print(list(ds.mp_prefetch(grain.MultiprocessingOptions(2))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "[1, 3, 5, 7, 9, 11, 13, 15, 17]\n",
        "",
    )


def test_jax_is_imported_in_no_worker_unless_the_users_code_does(
    script: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    package = tmp_path / "path" / "jax"
    package.mkdir(parents=True)
    log = tmp_path / "imports"
    (package / "__init__.py").write_text(
        f"import os\nwith open({str(log)!r}, 'a') as file:\n    print(os.getpid(), file=file)\n"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    body = """
        import jax
        assert jax.__file__.startswith(sys.argv[1])
        if sys.argv[2] == "used":
            def function(x):
                import jax
                return x
        else:
            function = lambda x: x + 1
        ds = MapDataset.range(20).shuffle(1).map(function).batch(2).to_iter_dataset()
        ds = ds.filter(lambda x: True).batch(2, batch_fn=list).map(lambda batch: len(batch))
        print(os.getpid(), len(list(ds.mp_prefetch(MultiprocessingOptions(2)))))
    """
    code, out, err = finish(script(body, package.parent, "unused"))
    assert (code, err) == (0, "")
    assert log.read_text().split() == [out.split()[0]]
    log.unlink()
    code, out, err = finish(script(body, package.parent, "used"))
    assert (code, err) == (0, "")
    assert len(set(log.read_text().split())) > 1


def test_a_worker_starts_no_workers_of_its_own(script: Any) -> None:
    process = script("""
        class Inner(grain.IterDataset):
            def __iter__(self):
                worker = os.getpid()
                ds = MapDataset.range(5).map(lambda x: (worker, os.getpid(), x)).to_iter_dataset()
                return iter(ds.mp_prefetch(MultiprocessingOptions(2)))
        found = list(Inner().mp_prefetch(MultiprocessingOptions(1)))
        worker = found[0][0]
        assert worker != os.getpid()
        assert found == [(worker, worker, x) for x in range(5)], found
    """)
    assert finish(process) == (0, "", "")


def test_a_module_that_reads_with_workers_when_it_is_imported_is_named(script, tmp_path) -> None:
    """Workers import it for its class; would they start workers too, there were no end of them."""
    (tmp_path / "reads_at_once.py").write_text(
        "import os\n"
        "import grain\n"
        "with open(os.path.join(os.path.dirname(__file__), 'imports'), 'a') as file:\n"
        "    file.write('.')\n"
        "class Source:\n"
        "    def __len__(self):\n"
        "        return 4\n"
        "    def __getitem__(self, index):\n"
        "        return index\n"
        "ds = grain.MapDataset.source(Source()).to_iter_dataset()\n"
        "print(list(ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))))\n"
    )
    code, out, err = finish(script("import reads_at_once"))
    assert (code, out) == (1, "")
    assert "imported `reads_at_once` (" in err
    assert 'or below `if __name__ == "__main__":`' in err
    assert len((tmp_path / "imports").read_text()) <= 3
