"""Large samples of which the truth is known, and small studies drawn from them. Numbers only, no model."""

from dataclasses import dataclass

import numpy as np

from headcount.sweeps import Curve

KS = np.arange(41)


@dataclass(frozen=True)
class Population:
    """What two models, `dense` and `sparse`, do on many prompts. The prompts of a template share `alike` of the
    variance of all that is drawn, and both models half of it. Around its rise a prompt's curve has noise of its own at
    each k (`jagged`), or a random walk from k to k that ends with the model whole, as when units are added one by one.
    """

    values: dict[str, np.ndarray]  # model -> [k, template, prompt]
    right: np.ndarray  # [template, prompt], 0 or 1

    @classmethod
    def draw(cls, seed=0, alike=0.8, jagged=False, noise=0.8, scales=(12, 5), size=2000, each=10):
        rng = np.random.default_rng(seed)

        def normal(*shape):
            shared, own = rng.standard_normal((*shape, size, 1)), rng.standard_normal((*shape, size, each))
            return np.sqrt(alike) * shared + np.sqrt(1 - alike) * own

        both, values = [normal(), normal(), normal(len(KS))], {}
        for name, scale in zip(("dense", "sparse"), scales, strict=True):
            floor, effect, walk = (np.sqrt(0.5) * (one + normal(*one.shape[:-2])) for one in both)
            if not jagged:
                walk = walk.cumsum(0) / np.sqrt(len(KS))
            share = (KS / KS[-1])[:, None, None]
            walk = walk - walk[0] - share * (walk[-1] - walk[0])
            rise = ((1 - np.exp(-KS / scale)) / (1 - np.exp(-KS[-1] / scale)))[:, None, None]
            values[name] = (-1 + 0.5 * floor + rise * (2 + 0.8 * effect) + noise * walk).astype(np.float32)
        return cls(values, (normal() < 0.5).astype(np.float32))  # right seven times in ten

    def explained(self, model="dense"):
        means = self.values[model].mean((1, 2), dtype=np.float64)
        return (means - means[0]) / (means[-1] - means[0])

    def needed(self, model="dense", threshold=0.9):
        return int(np.argmax(self.explained(model) >= threshold))

    def study(self, rng, templates, each):
        """The same few prompts for both models: some templates, and some prompts of each."""
        chosen = rng.choice(len(self.right), templates, replace=False)

        def few(values):
            return values[..., chosen, :each].reshape(*values.shape[:-2], -1).astype(np.float64)

        groups = tuple(np.repeat([f"template {name}" for name in chosen], each)) if each > 1 else ()
        right = np.broadcast_to(few(self.right), (len(KS), templates * each))
        return {
            name: Curve(
                model=name, task="t", title="T", units="heads", method="x", order="absolute", mode="keep", fill="zero",
                metric="logit_diff", ks=tuple(KS.tolist()), total=int(KS[-1]), ranking=(), groups=groups,
                values={"logit_diff": few(values)[None], "accuracy": right[None]},
                provenance={"task": {"sha256": "the same prompts"}},
            )
            for name, values in self.values.items()
        }  # fmt: skip
