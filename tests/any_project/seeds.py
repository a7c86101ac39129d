"""`CRASH_SEEDS` says with how many seeds kills are tried (3 unless it is set); `make test-crash` runs twenty."""

import os

SEEDS = range(int(os.environ.get("CRASH_SEEDS", "3")))
FEW_SEEDS = SEEDS if "CRASH_SEEDS" in os.environ else range(1)
"""For what takes longer: all of them when somebody asks for a number."""
