"""The rows without peers. Each row measures next to its own reference, in turns."""
