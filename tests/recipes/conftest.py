"""Lets the tests of recipes import `sizes`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
