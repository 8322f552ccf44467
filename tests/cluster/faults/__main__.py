"""`python -m tests.cluster.faults`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from cluster.faults.command import main

sys.exit(main())
