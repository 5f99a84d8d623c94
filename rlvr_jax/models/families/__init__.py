"""Model families as Hugging Face knows them: which switches a `config.json` turns, and what its
tensors are called.

Read `base`, then `llama`.  A new family is one file in this folder, registered under its
`model_type`.
"""

from rlvr_jax.models.families.base import (
    FAMILIES,
    Family,
    config_of,
    config_to_json,
    family_of,
)
from rlvr_jax.models.families.names import Cell, Tensor, layout
from rlvr_jax.registry import discover

__all__ = [
    "FAMILIES",
    "Cell",
    "Family",
    "Tensor",
    "config_of",
    "config_to_json",
    "family_of",
    "layout",
]

discover(__name__, __path__)
