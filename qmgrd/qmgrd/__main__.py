"""The entry point of ``qmgrd``."""

import gc

# Almost nothing that a start loads becomes garbage, so collections would only take time. The daemon
# enables them when it serves (process/collector.py).
gc.disable()

from qmgrd.main import main  # noqa: E402

__all__ = ["main"]

if __name__ == "__main__":
    main()
