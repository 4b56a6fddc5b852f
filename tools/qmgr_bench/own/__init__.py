"""The rows without peers. Each row is measured alternately with its own reference."""
