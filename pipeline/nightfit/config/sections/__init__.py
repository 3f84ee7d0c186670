"""The sections of refit.yaml, each validated by itself.

- `data`: `Data`
- `privacy`: `Privacy`, `Lifetime`
- `model`: `Model`
- `method`: `MethodSection`, `MomentSection`, `LocalMethodSection`; `MethodChoice` is one of them or a name
- `cluster`: `LocalCluster`, `RemoteCluster`, `NamedCluster`, `Security`; `ClusterChoice` is one of them
- `search`: `SearchSection`, `Unsafe`
- `sign`: `Sign`
- `base`: `Section`, what all of them share
"""

from nightfit.config.sections.base import NAME, Section
from nightfit.config.sections.cluster import ClusterChoice, LocalCluster, NamedCluster, RemoteCluster, Security
from nightfit.config.sections.data import Data
from nightfit.config.sections.method import LOCAL_SOLVERS, LocalMethodSection, MethodChoice, MethodSection, MomentSection
from nightfit.config.sections.model import Model
from nightfit.config.sections.privacy import Lifetime, Privacy
from nightfit.config.sections.search import SearchSection, Unsafe
from nightfit.config.sections.sign import Sign

__all__ = [
    "LOCAL_SOLVERS",
    "NAME",
    "ClusterChoice",
    "Data",
    "Lifetime",
    "LocalCluster",
    "LocalMethodSection",
    "MethodChoice",
    "MethodSection",
    "Model",
    "MomentSection",
    "NamedCluster",
    "Privacy",
    "RemoteCluster",
    "SearchSection",
    "Section",
    "Security",
    "Sign",
    "Unsafe",
]
