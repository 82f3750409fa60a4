"""The command line of `python -m loadtest.generator`.

Path: here -> measure.py.
"""

import sys

from loadtest.generator.measure import main

sys.exit(main())
