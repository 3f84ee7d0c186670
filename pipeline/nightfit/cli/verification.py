"""The commands verify and keys new. Imports the verifier, ledger and release, lazily."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from nightfit.cli.console import here, plain, say
from nightfit.types import NightfitError

keys = typer.Typer(help="Keys that sign releases.", no_args_is_help=True)


def verify(
    release: Annotated[Path, typer.Argument(metavar="RELEASE.JSON", help="A released model.")],
    ledger: Annotated[str | None, typer.Option(help="URL of the ledger that paid for it.")] = None,
    export: Annotated[Path | None, typer.Option(help="Instead: what `nightfit ledger export --chain` printed.")] = None,
    key: Annotated[Path | None, typer.Option(help="Public key in PEM of who must have signed it.")] = None,
) -> None:
    """Recompute a release's epsilon by two routes, and check its digest, receipt, signature and ledger. Says what remains trusted."""
    from nightfit.release import Release
    from nightfit.verifier import verify as verified

    if ledger is not None and export is not None:
        raise NightfitError("give --ledger or --export, not both")
    content = Release.load(release).content
    entries = None if ledger is None and export is None else list(_chain(ledger, export))
    verdict = verified(content, entries, None if key is None else _read(key, "key"))
    for line in verdict.found:
        say(plain(f"+ {line}"))
    say("What remains trusted:")
    for line in verdict.trusted:
        say(plain(f"- {line}"))
    if verdict.wrong:
        raise NightfitError(f"{release} is not what it says:\n" + "\n".join(f"  {line}" for line in verdict.wrong))
    say(plain(f"{release} is what it says."))


def _chain(ledger: str | None, export: Path | None) -> Iterator[dict[str, Any]]:
    if ledger is not None:
        from nightfit.config import resolved
        from nightfit.ledger import Ledger
        from nightfit.ledger.history import chain_records

        yield from chain_records(Ledger.open(resolved(ledger, Path.cwd())))
    elif export is not None:
        for number, line in enumerate(_read(export, "export").decode(errors="replace").splitlines(), start=1):
            yield _entry(export, number, line)


def _entry(export: Path, number: int, line: str) -> dict[str, Any]:
    expected = {"seq": int, "kind": str, "data_set": str, "body": str, "previous": str, "digest": str}
    try:
        entry = json.loads(line)
        if all(isinstance(entry[name], kind) for name, kind in expected.items()) and isinstance(json.loads(entry["body"]), dict):
            return {"run": None, "label": None, **entry}
    except (ValueError, KeyError, TypeError):
        pass
    raise NightfitError(f"line {number} of {export} is no entry of a chain: write the file with `nightfit ledger export --chain`")


def _read(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NightfitError(f"--{option}: {path} cannot be read ({error.strerror})") from None


@keys.command("new")
def new(
    path: Annotated[
        Path, typer.Argument(parser=here, metavar="<path>", help="The file of the private key; the public one gets the ending .pub.")
    ],
) -> None:
    """Make an Ed25519 key that signs releases (`sign: {key: ...}` in the configuration)."""
    from nightfit.release.signing import new_key

    public = new_key(path)
    say(plain(f"Wrote {path}, which only you can read, and {public}, for `nightfit verify --key {public}`."))
