"""`python -m loadtest.pressure`.

Path: here -> cli.main.
"""

import sys

from loadtest.pressure.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
