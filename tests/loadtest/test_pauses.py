import subprocess
import sys

CODE = """
import gc
from loadtest.pauses import avoid_pauses
kept = [[] for _ in range(1_000)]
avoid_pauses()
full = gc.get_stats()[2]["collections"]
assert gc.get_freeze_count() > 1_000
more = [[] for _ in range(500_000)]
assert gc.get_stats()[0]["collections"] > 100
assert gc.get_stats()[2]["collections"] == full
"""


def test_no_full_collection_comes() -> None:
    """In a process of its own: the tests' collector is left alone."""
    subprocess.run([sys.executable, "-c", CODE], check=True, timeout=60)
