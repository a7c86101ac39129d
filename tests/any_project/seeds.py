"""`CRASH_SEEDS` says with how many seeds kills are tried (3 unless it is set); `make test-crash` runs twenty."""

import os

SEEDS = range(int(os.environ.get("CRASH_SEEDS", "3")))
FEW_SEEDS = range(max(1, len(SEEDS) // 3))
"""For what takes longer."""
