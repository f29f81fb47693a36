"""Adapters on the hub: fetched into its own cache, where they are folders like any other."""

from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download

from ..core.provenance import Facts
from .adapters import ADAPTER, CONFIG, is_adapter
from .pretrained import TOKENIZER_FILES

FILES = (CONFIG, ADAPTER, *TOKENIZER_FILES, "special_tokens_map.json", "added_tokens.json", "merges.txt")
OPTIONS = ("revision", "token", "cache_dir", "local_files_only")


def fetched_adapter(source: str, options: Facts) -> Path | None:
    """The folder of the adapter that a hub id stands for; None where it is a model, or where nothing can be had: those
    who load it then say why."""
    asked: dict[str, Any] = {key: options[key] for key in OPTIONS if options.get(key) is not None}
    try:
        folder = Path(snapshot_download(source, allow_patterns=["config.json", CONFIG], **asked))
        return Path(snapshot_download(source, allow_patterns=list(FILES), **asked)) if is_adapter(folder) else None
    except Exception:  # of the hub and all that it calls: no such repository, no connection, no such name
        return None
