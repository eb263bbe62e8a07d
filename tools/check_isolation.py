"""Check an environment with the core and at most one plugin: what works, what is absent, and the errors.

Usage: python tools/check_isolation.py DISTRIBUTION
"""

from __future__ import annotations

import importlib.util
import sys

import grain

# Modules of each package's dependencies; those of other packages must be absent.
HEAVY: dict[str, set[str]] = {
    "grain-core": set(),
    "grain-arrayrecord": {"array_record"},
    "grain-parquet": {"pyarrow", "fsspec"},
    "grain-tfds": {"array_record", "tensorflow_datasets"},
    "grain-inmemory": set(),
    "grain-ray": {"ray"},
}
# Modules of indirect dependencies.
INDIRECT = {
    "grain-arrayrecord": {"fsspec"},
    "grain-tfds": {"fsspec", "pyarrow"},
}
# A public name of each plugin.
NAMES = {
    "grain-arrayrecord": "ArrayRecordDataSource",
    "grain-parquet": "ParquetDataSource",
    "grain-tfds": "TfdsDataSource",
    "grain-inmemory": "InMemoryDataSource",
}
ABSENT_EVERYWHERE = {"jax", "orbax", "tensorflow", "torch", "pytest"}


def faults(name: str) -> list[str]:
    """Return the problems of the environment."""
    found = []
    allowed = HEAVY[name] | INDIRECT.get(name, set())
    for module in sorted(set.union(ABSENT_EVERYWHERE, *HEAVY.values()) - allowed):
        if importlib.util.find_spec(module) is not None:
            found.append(f"{module} is installed, but nothing here needs it")
    for module in sorted(HEAVY[name]):
        if importlib.util.find_spec(module) is None:
            found.append(f"{module} is missing")
    for plugin, public in NAMES.items():
        if plugin == name:
            if not hasattr(grain.sources, public):
                found.append(f"grain.sources.{public} is missing")
            continue
        try:
            getattr(grain.sources, public)
        except AttributeError as error:
            extra = plugin.removeprefix("grain-")
            if f"grain-core[{extra}]" not in str(error):
                found.append(f"the error for {public} names no install command: {error}")
        else:
            found.append(f"grain.sources.{public} exists without {plugin}")
    return found + core_faults()


def core_faults() -> list[str]:
    """Return the problems of the core."""
    ds = grain.MapDataset.range(100).seed(1).shuffle().map(lambda x: x + 1).batch(10)
    plain = [batch.tolist() for batch in ds.to_iter_dataset()]
    options = grain.MultiprocessingOptions(num_workers=2)
    with iter(ds.to_iter_dataset().mp_prefetch(options)) as iterator:
        computed = [batch.tolist() for batch in iterator]
    return [] if plain == computed else ["worker processes changed the stream"]


def main(name: str) -> int:
    """Print the problems; return 1 if there are any."""
    problems = faults(name)
    print(f"{name} alone: {'; '.join(problems) or 'ok'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
