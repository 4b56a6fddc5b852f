"""The entry point of ``python -m qmgrd``."""

from qmgrd.main import main

main()
