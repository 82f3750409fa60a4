"""What holds for every test."""

import os

from hypothesis import settings

# The same examples each time in CI, so that a red run can be seen again; new ones each time at a desk.
settings.register_profile("desk", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
