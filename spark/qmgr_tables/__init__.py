"""The content of stores as Arrow tables: for Spark, for files, and for other Arrow programs."""
