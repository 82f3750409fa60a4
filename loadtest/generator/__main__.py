"""The command line of `python -m loadtest.generator`.

Path: here -> cli.py.
"""

import sys

from loadtest.generator.cli import main

sys.exit(main())
