"""GGUF files, parsed once.

transformers parses a file, with its tens of thousands of tokens, for the config, again for the tokenizer and again for
the weights, and builds the table of names anew for every module: half of the time that a small model takes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from .changes import changing

GGUF = ".gguf"


@contextmanager
def parsed_once() -> Iterator[None]:
    """Inside the block each file is parsed once, and each table of names is built once. Nothing changes either."""
    import gguf

    with changing() as changes:
        changes.set(gguf, "GGUFReader", cache(gguf.GGUFReader))
        changes.set(gguf, "get_tensor_name_map", cache(gguf.get_tensor_name_map))
        yield
