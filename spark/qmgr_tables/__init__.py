"""What the stores hold, as tables of Arrow: for Spark, for files, for whoever reads Arrow."""
