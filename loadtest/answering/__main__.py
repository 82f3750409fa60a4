"""`python -m loadtest.answering`.

Path: here -> cli.main.
"""

import sys

from loadtest.answering.cli import main

sys.exit(main(sys.argv[1:]))
