"""The content of stores as Arrow tables: for Spark, for files, and for other Arrow programs.

* `tables/` has a module for each table, such as `messages.py`, and a `registry.py` of all tables.
  `table.py` defines a table. `row.py` decodes one message, and `columns.py` and `chunk.py` decode
  thousands of plain messages at once.
* `planning.py` finds the snapshots and distributes a query over tasks. `partition.py` packs runs of
  messages into partitions of equal size. `filters.py` skips data that cannot match.
* `options.py` and `option_parser.py` contain the options. `image.py` opens data files. `staging.py`
  copies remote snapshots.
* `stream/` follows a daemon, and `export/` writes files.
"""
