"""Short runs of sparse post-training, for the tests of what they do and of what they leave."""

import pytest

import headcount as hc
from headcount.sparse import outputs
from headcount.sparse.recipe import Recipe

QUICK = Recipe(
    steps=6, batch=2, length=16, lora=2, kl=0.5, tail=0.1, checkpoint_every=2, evaluate_sequences=4, warmup=1,
    gate_lr=0.1, lr=1e-3, sharpness=1.0, start=-6.0, first_multiplier=1.0,
)  # fmt: skip


def changed(**settings):
    return Recipe(**{**dict(QUICK), **settings})


def run(folder, text, out, recipe=QUICK, *, plots=False, **options):
    """Without the plot at each checkpoint, which takes longer than the steps between, unless a test looks at it."""
    with pytest.MonkeyPatch.context() as patch:
        if not plots:
            patch.setattr(outputs, "_plot", lambda rows: b"")
        return hc.sparsify(folder, [text], out, recipe, device="cpu", quiet=True, **options)
