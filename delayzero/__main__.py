"""``python -m delayzero``: the same as the command ``delayzero``."""

import sys

from delayzero.cli import main

sys.exit(main())
