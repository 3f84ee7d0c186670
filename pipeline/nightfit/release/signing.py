"""Ed25519 signatures of releases, by a key file that the configuration names. Imports cryptography (the extra `signing`), when asked to.

Keys are files in PEM, as `openssl genpkey -algorithm ed25519` makes them. `nightfit.verifier` checks signatures.
"""

import os
from pathlib import Path
from typing import Any

from nightfit.release.document import Release
from nightfit.types import NightfitError
from nightfit.verifier.document import signed_bytes

CURE = "make one with `nightfit keys new NAME`, or `openssl genpkey -algorithm ed25519 -out NAME.pem`"


class SigningError(NightfitError):
    """A release cannot be signed with this key."""


def new_key(path: Path) -> Path:
    """Write a new private key, which only its owner can read, and its public key beside it.

    Parameters
    ----------
    path
        Of the private key; the public key has the same name with the ending `.pub`.

    Returns
    -------
    Path
        Of the public key.

    Raises
    ------
    SigningError
        If a file of either name exists, or cannot be written.
    """
    if not path.name or path.suffix == ".pub" or path.is_dir():
        raise SigningError(f"{path} is no name for a private key: name a file that does not end in .pub, as the public one beside it will")
    serialization, ed25519 = _library()
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    beside = path.with_suffix(".pub")
    for place, text, mode in ((path, private, 0o600), (beside, public, 0o644)):
        try:
            with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as handle:
                handle.write(text)
        except FileExistsError:
            raise SigningError(f"{place} exists already: a key is never overwritten; name another file") from None
        except OSError as error:
            raise SigningError(f"{place} cannot be written ({error.strerror}): name another file") from None
    return beside


def load_key(path: Path) -> Any:
    """Read a private key.

    Raises
    ------
    SigningError
        If there is none, it is no Ed25519 key in PEM without a passphrase, or others may read it.
    """
    serialization, ed25519 = _library()
    try:
        mode, text = path.stat().st_mode, path.read_bytes()
    except OSError as error:
        raise SigningError(f"sign.key: {path} cannot be read ({error.strerror}): {CURE}") from None
    if mode & 0o077:
        raise SigningError(f"sign.key: others can read {path}, and sign in your name: `chmod 600 {path}`")
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError):
        raise SigningError(f"sign.key: {path} is no private key in PEM without a passphrase: {CURE}") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise SigningError(f"sign.key: {path} is no Ed25519 key: {CURE}")
    return key


def signed(release: Release, key: Any) -> Release:
    """The release with a signature of everything in it, its receipt too."""
    content = {name: value for name, value in release.content.items() if name != "signature"}
    return Release(content={**content, "signature": {"ed25519": key.sign(signed_bytes(content)).hex()}})


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise SigningError("signatures need the package cryptography: `pip install 'nightfit[signing]'`") from None
    return serialization, ed25519
