"""The configuration of qmgrd: its model, its units, and how it is loaded."""
