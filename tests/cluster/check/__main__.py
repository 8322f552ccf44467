"""Runs the check from the project's folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from cluster.check.command import main

sys.exit(main())
