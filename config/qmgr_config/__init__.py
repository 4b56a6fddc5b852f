"""The configuration of qmgrd: its model, its units, and its loader."""
