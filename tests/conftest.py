import os

import pytest
import torch

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
torch.set_num_threads(2)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache folder of the test's own, so that nothing is found that it did not make."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("HEADCOUNT_CACHE", str(folder))
    return folder
