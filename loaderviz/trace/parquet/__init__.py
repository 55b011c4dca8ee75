"""A trace as one Parquet file: written, sealed and read."""
