"""The command line of `python -m loadtest.door`.

Path: here -> measure.py.
"""

import sys

from loadtest.door.measure import main

sys.exit(main())
