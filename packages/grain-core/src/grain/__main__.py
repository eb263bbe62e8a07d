"""`python -m grain` is the `grain` command."""

import sys

from grain.cli import main

if __name__ == "__main__":
    sys.exit(main())
