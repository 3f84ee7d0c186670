"""A released model's scores for Parquet of any size, batch by batch. Imports dask and pyarrow.

The features of a record are clamped to the public bounds that the model was fitted with. What is written holds the records
themselves: it is as sensitive as its source, and no release.
"""

import contextlib
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nightfit.problem.links import Link
from nightfit.records.encoding import Encoding
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.failures import CHANGED, ClusterError, Stalled, in_words
from nightfit.shards.manifest import DataError, Manifest, scan
from nightfit.shards.placement import CHUNK_BYTES
from nightfit.shards.raw_columns import encoded, numbers
from nightfit.shards.read import BATCH_BYTES, Piece, chunks_of, parquet_file
from nightfit.shards.schema import check_columns, check_kinds
from nightfit.shards.scorer import Scorer, parallel
from nightfit.shards.watchdog import gather
from nightfit.types import Array

AHEAD = 2


def predict(
    preprocessing: Preprocessing,
    weights: Array,
    link: Link,
    source: str,
    output: Path,
    *,
    keep: Sequence[str] | None = None,
    client: Any = None,
    overwrite: bool = False,
) -> int:
    """Write every record of `source` (file, glob, folder, URL) with its prediction, in order; the number of rows.

    An output that ends in .parquet is one file; any other is a folder with one part per source file. `keep` names the columns to
    write (default: all). Missing values count as in the fit; a record that it would have dropped gets a null prediction.
    The output appears under its name when it is whole. Memory holds a few batches of 32 MB, and a row group's features on each worker
    of a client.
    """
    manifest = scan(source)
    check_kinds(manifest, preprocessing.encoded, fitted=True)
    check_columns(manifest, preprocessing.outcome.columns, "an exposure")
    kept = list(manifest.types) if keep is None else list(keep)
    scorer = Scorer(preprocessing, np.ascontiguousarray(weights, dtype=np.float64), link)
    _check_kept(manifest, kept, scorer)
    _check_output(source, output, manifest, overwrite)
    schema = pa.schema([*_fields(manifest, kept), *scorer.written.items()])
    with _whole(output) as place:
        parts = {place: manifest.shards}
        if place.is_dir():
            parts = {place / f"part-{number:05d}.parquet": (shard,) for number, shard in enumerate(manifest.shards)}
        scored = {part: _scored(replace(manifest, shards=shards), scorer, kept, client) for part, shards in parts.items()}
        return sum(_write(part, schema, batches, kept, scorer) for part, batches in scored.items())


def _write(part: Path, schema: Any, scored: Iterator[tuple[Any, Array]], kept: list[str], scorer: Scorer) -> int:
    rows = 0
    with pq.ParquetWriter(part, schema) as writer:
        for batch, scores in scored:
            columns = [batch.column(name).cast(schema.field(name).type) for name in kept]  # where one without any value has no type
            writer.write_batch(pa.RecordBatch.from_arrays([*columns, *scorer.columns(scores, _exposures(batch, scorer))], schema=schema))
            rows += batch.num_rows
    return rows


def _exposures(batch: Any, scorer: Scorer) -> Array | None:
    """The exposures of a batch, if the model's outcome has any."""
    name = scorer.preprocessing.outcome.exposure
    return None if name is None else numbers(batch.column(name))


def _check_kept(manifest: Manifest, kept: list[str], scorer: Scorer) -> None:
    for name in kept:
        if name not in manifest.types:
            raise DataError(f"column {name!r} is missing in {manifest.shards[0].name}: there are {', '.join(sorted(manifest.types)[:20])}")
        if name in scorer.written:
            raise DataError(f"the source has a column {name!r} already: rename it, or name the columns to keep without it")


def _check_output(source: str, output: Path, manifest: Manifest, overwrite: bool) -> None:
    """Refuse to write over anything unasked, and ever over or among the source's files."""
    target = output.resolve()
    sources = [Path(shard.location.removeprefix("file://")) for shard in manifest.shards]
    if target in sources or (Path(source).is_dir() and target.is_relative_to(Path(source).resolve())):
        raise DataError(f"{output} lies among the source's own files: choose another place")
    if output.is_dir() and (output.suffix == ".parquet" or any(output.iterdir())):
        raise DataError(f"{output} is a folder that is not empty: remove it, or choose another name")
    if output.is_file() and not overwrite:
        raise DataError(f"{output} exists already: allow it to be overwritten, or choose another name")
    if not output.parent.is_dir():
        raise DataError(f"there is no folder {output.parent}: make it first")


@contextlib.contextmanager
def _whole(output: Path) -> Iterator[Path]:
    """A temporary file or folder beside the output, renamed to it at the end or removed."""
    if output.suffix == ".parquet":
        descriptor, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
        os.close(descriptor)
    else:
        name = tempfile.mkdtemp(dir=output.parent, prefix=f".{output.name}.")
    try:
        yield Path(name)
        os.replace(name, output)
    except BaseException:
        shutil.rmtree(name, ignore_errors=True)
        Path(name).unlink(missing_ok=True)
        raise


def _fields(manifest: Manifest, kept: list[str]) -> list[Any]:
    """The columns to write, with their types: of a column without any value in some shards, that of the others."""
    found: dict[str, Any] = {}
    for shard in manifest.shards:
        with _opened(shard.location) as file:
            types = {name: file.schema_arrow.field(name).type for name in kept}
        found = {name: kind if pa.types.is_null(found.get(name, pa.null())) else found[name] for name, kind in types.items()}
        if not any(map(pa.types.is_null, found.values())):
            break
    return [pa.field(name, found[name]) for name in kept]


def _scored(manifest: Manifest, scorer: Scorer, kept: list[str], client: Any) -> Iterator[tuple[Any, Array]]:
    """The batches of the shards with their scores: those of labels as probabilities, if the link gives them."""
    model, encoding = parallel(scorer), scorer.preprocessing.encoded
    names = list(dict.fromkeys([*kept, *encoding.readings, *scorer.preprocessing.outcome.columns]))
    width = max(len(names), len(encoding.features))
    pieces = [piece for chunk in chunks_of(manifest, len(encoding.features), CHUNK_BYTES) for piece in chunk.pieces]
    if client is None:
        for batch in (batch for piece in pieces for batch in _batches(piece, names, width)):
            X = da.from_array(encoded(batch, encoding), chunks=-1, name=False)
            yield batch, _score(model, scorer, X).compute(scheduler="synchronous")
        return
    for piece, scores in zip(pieces, _ahead(model, scorer, pieces, client), strict=True):
        if len(scores) != piece.rows:
            raise DataError(in_words(CHANGED))
        start = 0
        for batch in _batches(piece, names, width):
            yield batch, scores[start : start + batch.num_rows]
            start += batch.num_rows


def _score(model: Any, scorer: Scorer, X: Any) -> Any:
    if not scorer.link.probability:
        return model.predict(X)
    return model.predict_proba(X)[:, 1] if scorer.scores == 1 else model.predict_proba(X)


def _ahead(model: Any, scorer: Scorer, pieces: list[Piece], client: Any) -> Iterator[Array]:
    """The scores of each piece in order: a few pieces at a time are read and scored on workers, which receive names of files only."""
    from distributed import CancelledError, KilledWorker
    from distributed.comm.core import CommClosedError

    encoding = scorer.preprocessing.encoded
    most = AHEAD * max(1, sum(client.nthreads().values()))
    waiting: deque[Any] = deque()
    left = deque(pieces)
    try:
        while left or waiting:
            while left and len(waiting) < most:
                piece = left.popleft()
                shape = (piece.rows, len(encoding.features))
                X = da.from_delayed(dask.delayed(features_of_piece)(piece, encoding), shape, dtype=np.float64)
                waiting.append(client.compute(_score(model, scorer, X)))
            yield gather(client, [waiting.popleft()])[0]
    except RuntimeError as failure:
        raise DataError(in_words(str(failure))) from None
    except Stalled as stalled:
        raise ClusterError(f"{stalled}; then predict again: nothing was written") from None
    except (KilledWorker, CancelledError, CommClosedError, OSError, TimeoutError):
        raise ClusterError("the Dask cluster was lost (out of memory?): check it, then predict again; nothing was written") from None


def features_of_piece(piece: Piece, encoding: Encoding) -> Array:
    """The task that reads a piece's features; it raises the name of a failure and nothing else."""
    try:
        out, start = np.empty((piece.rows, len(encoding.features))), 0
        for batch in _batches(piece, list(encoding.readings), len(encoding.features)):
            out[start : start + batch.num_rows] = encoded(batch, encoding)
            start += batch.num_rows
        return out[:start]
    except MemoryError:
        raise RuntimeError("memory") from None
    except Exception:
        raise RuntimeError("failed") from None


def _batches(piece: Piece, names: list[str], width: int) -> Iterator[Any]:
    """Some columns of a piece, in batches of BATCH_BYTES if a row is `width` numbers wide."""
    with _opened(piece.shard.location) as file:
        rows = max(1, BATCH_BYTES // (8 * width))
        try:
            yield from file.iter_batches(rows, row_groups=list(piece.row_groups), columns=names, use_threads=False)
        except (pa.ArrowInvalid, OSError):
            raise DataError(f"{piece.shard.name} cannot be read to its end (truncated or corrupt): restore it") from None


@contextlib.contextmanager
def _opened(location: str) -> Iterator[Any]:
    filesystem, name = fsspec.core.url_to_fs(location)
    with filesystem.open(name, "rb") as handle:
        yield parquet_file(handle)
