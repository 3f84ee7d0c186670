"""YAML text to plain data, with every fault told by its line. Imports yaml."""

import re
from collections.abc import Hashable
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

MOST_NESTED = 30  # levels: a configuration has six, and the arguments of a cluster class a few more
MOST_DIGITS = 400  # of a number: the longest finite float has 309 before its point

BOOLEAN = "tag:yaml.org,2002:bool"  # yes, no, on and off too, in YAML 1.1

ODD_NUMBER = re.compile(r"^[-+]?0[0-9_]|[:_]")  # 010 is 8 in YAML 1.1, 1:30 is 90 and 1_0 is 10: postal codes and times would become those


class TextError(Exception):
    """The text is not YAML that a configuration can be read from; the message names the line."""


class _Loader(yaml.SafeLoader):
    """YAML whose floats are those of version 1.2 (1e-6 is a number), and which reads nothing twice and nothing halfway."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.depth = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise _fault(self.get_mark(), f"too deeply nested: at most {MOST_NESTED} levels")
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping in which no key is written twice: the last one would win without a word. `on` is a key, and no truth."""
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value if isinstance(node, MappingNode) else ():
            if isinstance(key, ScalarNode):
                if key.tag == BOOLEAN and key.value.lower() not in ("true", "false"):
                    key.tag = self.DEFAULT_SCALAR_TAG
                if (key.tag, key.value) in seen:
                    raise _fault(key.start_mark, f"{_short(key.value)} is written twice: remove one")
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        """A value; one that only looks like a number, a date or the like is refused by its line."""
        if not isinstance(node, ScalarNode):
            return super().construct_object(node, deep)
        kind = node.tag.rpartition(":")[2]
        if kind in ("int", "float") and len(node.value) > MOST_DIGITS:
            raise _fault(node.start_mark, f"a number has too many digits ({len(node.value):,})")
        if kind in ("int", "float") and ODD_NUMBER.search(node.value):
            raise _fault(
                node.start_mark,
                f"YAML would read {_short(node.value)} as octal, in sixties or without its underscores: write the number as it is meant, "
                "or in quotes if it is text",
            )
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, OverflowError):
            raise _fault(node.start_mark, f"{_short(node.value)} is no {kind}: correct it, or write it in quotes if it is text") from None


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+0123456789."))


def plain_data(text: str) -> Any:
    """What a YAML text says.

    Parameters
    ----------
    text : str
        One YAML document.

    Returns
    -------
    object
        Mappings, lists, texts, numbers, dates; None if the text is empty.

    Raises
    ------
    TextError
        If it is not valid: the line, and what is wrong.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}: "
        raise TextError(f"{line}{error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise TextError(" ".join(str(error).split())) from None


def _fault(mark: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _short(value: str) -> str:
    return repr(value if len(value) <= 40 else f"{value[:40]}...")
