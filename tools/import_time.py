"""Measure the import and first use of the library against `import numpy`, and list what it loads.

Usage: python tools/import_time.py [LIMIT]

Exits with 1 if the first use takes more than LIMIT (1.5) times as long as numpy, or if it loads a
forbidden module.
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
    "grain_ray",
    "grain_tfds",
    "jax",
    "orbax",
    "pyarrow",
    "pytest",
    "ray",
    "tensorflow",
    "tensorflow_datasets",
)


def in_fresh_python(program: str) -> str:
    """Return the output of a program in a new interpreter."""
    # With bytecode files, as users have them: otherwise the compiler is measured.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


# Most of the library is imported on first use.
FIRST_USE = "from grain import MapDataset"


def seconds_for(statement: str) -> float:
    """Return the seconds of one import in a new interpreter."""
    return float(
        in_fresh_python(
            "import time; start = time.perf_counter()\n"
            f"{statement}\n"
            "print(time.perf_counter() - start)"
        )
    )


def loaded_by_import() -> list[str]:
    """Return the forbidden modules that the first use of the library loads."""
    loaded = in_fresh_python(f"{FIRST_USE}; import sys; print(*sys.modules)").split()
    return [name for name in FORBIDDEN if name in loaded]


def main(limit: float = 1.5) -> int:
    """Print all times, ratios and loaded modules; return 1 if a limit is exceeded."""
    # Interleaved, and the best time counts: other load only makes an import slower.
    statements = ("import numpy", "import grain", FIRST_USE)
    times = [[seconds_for(statement) for statement in statements] for _ in range(ROUNDS)]
    best = [min(column) for column in zip(*times, strict=True)]
    for statement, seconds in zip(statements, best, strict=True):
        print(f"{statement:30}{seconds * 1000:6.1f} ms, {seconds / best[0]:.2f} times numpy")
    loaded = loaded_by_import()
    print(
        f"best of {ROUNDS}, limit {limit} times numpy; heavy modules loaded: {', '.join(loaded) or 'none'}"
    )
    return 1 if loaded or best[-1] > limit * best[0] else 0


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:])))
