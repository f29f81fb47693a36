"""Sparse-attention post-training: from a dense model to one that attends to a key or two a query.

text  ->  packed sequences  ->  steps under a bound on what is lost  ->  adapter or weights, gates, card

(Imports no torch: the command line reads `recipe` from here.)
"""
