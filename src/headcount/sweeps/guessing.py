"""Can the model do the task at all? Where it only guesses, what heads and circuits do for it means little."""

import math

from ..core.provenance import part_of
from .curve import Curve
from .resampling import NORMAL

LEVEL = 0.95
MEAN_LITTLE = "the model cannot do this task, roles and circuits mean little."


def guessing(curve: Curve) -> str | None:
    """A sentence where the whole model's accuracy is not told from chance; None where it is, or is not known."""
    whole = curve.whole.get("accuracy")
    if whole is None and curve.kind == "explained" and "accuracy" in curve.values:
        whole = float(curve.values["accuracy"][:, -1 if curve.mode == "keep" else 0].mean())
    chance = part_of(curve.provenance, "task").get("chance")
    if whole is None or not isinstance(chance, float | int):
        return None
    return words_of_guessing(curve.model, curve.task, whole, curve.pairs, chance)


def doubts(curve: Curve) -> tuple[str, ...]:
    """Why the numbers of a curve mean little, as a study warns of it: no effect, few prompts, a model that guesses."""
    own = [f"{curve.task}, {curve.model}: {words}" for words in (curve.warning(), curve.too_few()) if words]
    return tuple(filter(None, (*own, guessing(curve))))


def words_of_guessing(model: str, task: str, right: float, n: int, chance: float) -> str | None:
    """Of a share of n prompts that are right. A few prompts that are nearly all right prove little, and raise no alarm
    either."""
    if lower_end(right, n) > chance or right >= (1 + chance) / 2:
        return None
    if chance == 0:
        return f"{model} gives none of the {n} right answers of {task} itself: {MEAN_LITTLE}"
    found, guessed = f"{100 * right:.0f} %", f"{100 * chance:.0f} %"
    return f"{model} is right on {found} of {n} test prompts of {task}, and guessing on {guessed}: {MEAN_LITTLE}"


def lower_end(share: float, n: int) -> float:
    """Of Wilson's interval."""
    z = NORMAL.inv_cdf(LEVEL)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max((share + z * z / (2 * n) - spread) / (1 + z * z / n), 0.0)
