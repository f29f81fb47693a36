"""Sparse-attention post-training: from a dense model to one that attends to a key or two a query.

text  ->  packed sequences  ->  steps under a bound on what is lost  ->  adapter or weights, gates, card
"""

from ..recipe import Recipe
from .evaluation import Evaluation, evaluate
from .run import sparsify

__all__ = ["Evaluation", "Recipe", "evaluate", "sparsify"]
