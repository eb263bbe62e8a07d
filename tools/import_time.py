"""Measures `import grain` against `import numpy`, and says which heavy modules it loads.

Usage: python tools/import_time.py [LIMIT]

Exits with 1 when the ratio of the two times exceeds LIMIT (1.5), or when a module is loaded that a
plain `import grain` must leave alone.
"""

from __future__ import annotations

import os
import subprocess
import sys

ROUNDS = 15
FORBIDDEN = (
    "absl",
    "array_record",
    "grain_arrayrecord",
    "grain_inmemory",
    "grain_parquet",
    "grain_tfds",
    "jax",
    "orbax",
    "pyarrow",
    "pytest",
    "tensorflow",
    "tensorflow_datasets",
)


def in_fresh_python(program: str) -> str:
    """What a program prints in an interpreter of its own."""
    # Users keep compiled modules; without them the time is the compiler's.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


def seconds_to_import(module: str) -> float:
    """How long one import takes in a fresh interpreter."""
    return float(
        in_fresh_python(
            "import time; start = time.perf_counter()\n"
            f"import {module}\n"
            "print(time.perf_counter() - start)"
        )
    )


def loaded_by_import() -> list[str]:
    """The forbidden modules that `import grain` loads."""
    loaded = in_fresh_python("import grain, sys; print(*sys.modules)").split()
    return [name for name in FORBIDDEN if name in loaded]


def main(limit: float = 1.5) -> int:
    """Prints both times, their ratio and what was loaded; 1 when a limit is broken."""
    # They take turns and the best time counts: a busy machine only ever makes an import slower.
    times = [(seconds_to_import("numpy"), seconds_to_import("grain")) for _ in range(ROUNDS)]
    numpy, grain = (min(column) for column in zip(*times, strict=True))
    loaded = loaded_by_import()
    print(f"import numpy: {numpy * 1000:6.1f} ms (best of {ROUNDS})")
    print(f"import grain: {grain * 1000:6.1f} ms, {grain / numpy:.2f} times numpy, limit {limit}")
    print(f"heavy modules loaded: {', '.join(loaded) or 'none'}")
    return 1 if loaded or grain > limit * numpy else 0


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:])))
