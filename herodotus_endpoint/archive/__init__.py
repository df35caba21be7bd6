"""The archive: decisions of days that are over, as Parquet files on object storage or in a directory.

Owns: the layout of the archive, writing days, reading them back. Does not own: the columns (`exchange.parquet`), SQL on
the database (`store`), HTTP. Its modules are imported on use, because pyarrow and DuckDB are an extra of the servers'
distribution; `problems` and `urls` need neither.
"""
