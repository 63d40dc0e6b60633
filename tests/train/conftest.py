"""Lets the tests of training, and the processes that they start, import `toy`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
