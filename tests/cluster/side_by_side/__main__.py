"""Runs both from the project's folder: `python -m tests.cluster.side_by_side`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from cluster.side_by_side.command import main

sys.exit(main())
