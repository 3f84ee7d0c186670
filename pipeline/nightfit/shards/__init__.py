"""Parquet shards on Dask. The only room that imports dask, distributed, dask_ml or pyarrow."""
