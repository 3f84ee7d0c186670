"""Parquet shards on Dask. The only package that imports dask, distributed, dask_ml or pyarrow.

Files and rows

- `source`, `listing`, `lakes`: which files: of a path, a store or a version of a lake table
- `manifest`: the files of a data set from their footers: types, row counts, identity
- `schema`: whether their columns are of types that a configuration can use
- `read`: chunks of row groups, decoded into bounded blocks inside a task
- `synthetic`, `hospital`: heavy-tailed data and made-up admissions to write

The data set

- `dataset`: `ShardedDataset`, the exact integers of a query over every record; an auditor reads `aggregate` and `tasks`
- `in_process`, `on_cluster`: where its tasks run
- `placement`: which chunks each worker stages, and whether they fit in memory
- `tasks`: what a worker does with its rows
- `arrays`: the same integers over numpy or Dask arrays, for the estimators
- `predict`: a released model's scores for Parquet of any size
- `exact_metrics`: how good it is on trusted data

Rows on workers

- `staging`, `folders`: decoded rows in a worker's memory or in private files
- `lease`: files go when their driver is gone
- `shuffle`: all rows of a person on one worker
- `grouping`: all records of a group in one task
- `prefetch`: the rows of later draws, taken in one reading

The cluster

- `cluster`: connect to one, local, remote or of any class; check its versions
- `watchdog`: wait for a slow cluster, and notice a lost one
- `worker_rpc`: call workers without a task
- `keys`: how a secret key reaches workers
- `failures`: what can go wrong, in words
"""
