"""Refuses a gradient estimator or solver that leaves out what its protocol declares. Imports nothing of ours."""


def declared_members(protocol: type) -> frozenset[str]:
    """Names of the attributes, properties and methods that a protocol declares."""
    return frozenset(name for name in {*protocol.__annotations__, *vars(protocol)} if not name.startswith("_"))


def check_members(kind: type, protocol: type, own: tuple[str, ...] = ()) -> None:
    """Check that a class has every member of its protocol, and those of `own` written in its own body.

    Members may be dataclass fields, which a class with slots has as descriptors.

    Raises
    ------
    ValueError
        If a member is missing, or one of `own` is only inherited.

    Guarantee: nobody reads a member with a default, so a claim such as `private` cannot be made by forgetting it, nor inherited from
    another estimator. Broken by test_an_estimator_that_does_not_declare_private_is_refused.
    """
    fields: dict[str, object] = vars(kind).get("__dataclass_fields__", {})
    missing = sorted(name for name in declared_members(protocol) if name not in fields and not hasattr(kind, name))
    if missing:
        raise ValueError(f"{kind.__name__} does not declare {', '.join(missing)}: every {protocol.__name__} must")
    inherited = [name for name in own if name not in vars(kind)]
    if inherited:
        raise ValueError(f"{kind.__name__} inherits {', '.join(inherited)}: every {protocol.__name__} must write it itself")
