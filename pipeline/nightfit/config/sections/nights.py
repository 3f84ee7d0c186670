"""What happens after a night: the key `promote`. Imports pydantic."""

from typing import Literal

Promote = Literal["when better", "always", "by hand"]
