"""The command line of `python -m loadtest.verdicts`.

Path: here -> measure.py.
"""

import sys

from loadtest.verdicts.measure import main

sys.exit(main())
