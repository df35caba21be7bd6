"""Export of decisions to JSON lines and Parquet, and import of JSON lines."""
