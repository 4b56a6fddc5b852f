"""Exports tables to Parquet and Delta Lake, without Spark."""
