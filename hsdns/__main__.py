"""`python -m hsdns`, the same as the command `hsdns`.

Path: argv -> cli.main.
"""

import sys

from hsdns.cli import main

if __name__ == "__main__":
    sys.exit(main())
