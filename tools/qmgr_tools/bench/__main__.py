"""``make bench``."""

import sys

from qmgr_tools.bench.compare import main

sys.exit(main())
