"""`python -m loadtest.watch`.

Path: here -> cli.main.
Rule 1: SIGTERM raises an exception as Ctrl-C does, so that all started processes are ended.
"""

import signal
import sys

from loadtest.watch.cli import main


def _stop(number: int, frame: object) -> None:
    del frame
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
