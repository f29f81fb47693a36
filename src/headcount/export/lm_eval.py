"""lm-evaluation-harness on a model without some of its heads (`pip install 'headcount[lm-eval]'`).

`headcount eval` runs its tasks on the whole model, on the cut one and on cuts of as many heads at random. The class is
the model `headcount` of the harness itself, which newer versions of it find by an entry point:

    lm_eval --model headcount --model_args pretrained=smollm2,without=scores/ioi,top=20 --tasks arc_easy
"""

import logging
import random
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Self

import lm_eval.evaluator
import numpy as np
import torch
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from ..core.errors import HeadcountError, in_short
from ..core.export_options import CutChoice
from ..core.progress import waiting
from ..core.reading import local_path
from ..core.saving import Row
from ..models import Model, load
from ..tasks.lm_eval import load_tasks
from ..tasks.task_code import sandboxed_templates
from .cuts import HeadCut, cut_of, random_cut, scores_in

SEED, PYTHON_SEED = 1234, 0
"""What the harness seeds everything with, so that numbers are those of its own command."""
NOT_METRICS = ("alias", "name", "sample_len", "sample_count")


class HeadcountLM(HFLM):  # type: ignore[misc]
    """A model of the harness whose heads are cut for as long as it lives, or until `close`."""

    def __init__(
        self,
        pretrained: str,
        without: str | None = None,
        heads: str | None = None,
        device: str | None = None,
        dtype: str | None = None,
        batch_size: int | str | None = 1,
        max_batch_size: int | None = 64,
        **choice: object,
    ) -> None:
        """`without`: a folder of scores; `heads`: names with + between them; `choice`: top, weakest, fill, task … as
        the options of `headcount export checkpoint` are called."""
        asked = CutChoice(**{"heads": heads.split("+") if heads else None, **choice})  # type: ignore[arg-type]
        model = load(pretrained, device=device, dtype=dtype)
        cut = None
        if without or heads:
            cut = cut_of(scores_in(local_path(without)) if without and not heads else None, asked, model)
        self._open_with(model, cut, batch_size or 1, max_batch_size)

    @classmethod
    def around(cls, model: Model, cut: HeadCut | None, batch_size: int | str = 8) -> Self:
        """Around a model that is loaded; whole where there is no cut."""
        made = cls.__new__(cls)
        made._open_with(model, cut, batch_size)
        return made

    def _open_with(
        self, model: Model, cut: HeadCut | None, batch_size: int | str, max_batch_size: int | None = 64
    ) -> None:
        logging.getLogger("lm_eval.models.huggingface").setLevel(logging.ERROR)
        super().__init__(
            pretrained=model.hf,
            tokenizer=model.require_tokenizer(),
            batch_size=batch_size,
            max_batch_size=max_batch_size,
            add_bos_token=True if model.bos else None,
        )
        self._cut = ExitStack()
        if cut is not None:
            self._cut.enter_context(cut.applied())

    def close(self) -> None:
        """Leave the model as it was."""
        self._cut.close()


class _Told(HeadcountLM):
    """The same inside our own command, which says what is being run in place of the harness's bars."""

    what: str

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = True) -> Any:
        with self._said(requests):
            return super().loglikelihood(requests, disable_tqdm=True)

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = True) -> Any:
        with self._said(requests):
            return super().loglikelihood_rolling(requests, disable_tqdm=True)

    def generate_until(self, requests: list[Any], disable_tqdm: bool = True) -> Any:
        with self._said(requests):
            return super().generate_until(requests, disable_tqdm=True)

    def _loglikelihood_tokens(self, requests: Any, disable_tqdm: bool = True, **settings: Any) -> Any:
        return super()._loglikelihood_tokens(requests, disable_tqdm=True, **settings)

    def _said(self, requests: list[Any]) -> AbstractContextManager[None]:
        return waiting(f"lm-evaluation-harness, {self.what}: {len(requests):,} requests")


def evaluate(
    cut: HeadCut, tasks: Sequence[str], *, limit: int | None = None, draws: int = 1, batch_size: int = 8, seed: int = 0
) -> list[Row]:
    """A row for each metric of each task: the whole model, without the heads, and without as many at random (the mean
    of the draws, and the lowest and highest)."""
    with sandboxed_templates():
        loaded = [task for name in tasks for task in load_tasks(name)]

        def run(number: int, what: str, removed: HeadCut | None) -> dict[tuple[str, str], float]:
            lm = _Told.around(cut.model, removed, batch_size)
            lm.what = f"{what} ({number} of {2 + draws})"
            return _results(lm, loaded, limit)

        whole, without = run(1, "whole model", None), run(2, "without these heads", cut)
        by_chance = [run(3 + draw, "without random heads", random_cut(cut, seed + draw)) for draw in range(draws)]
    rows: list[Row] = []
    for (task, metric), value in whole.items():
        drawn = [found[task, metric] for found in by_chance]
        mean, low, high = sum(drawn) / len(drawn), min(drawn), max(drawn)
        shown = {
            "whole": value,
            "without": without[task, metric],
            "random": mean,
            "random_low": low,
            "random_high": high,
        }
        rows.append({"task": task, "metric": metric, "heads": len(cut.heads), **shown})
    return rows


def _results(lm: HeadcountLM, tasks: Sequence[Any], limit: int | None) -> dict[tuple[str, str], float]:
    """(task, metric) -> value, from a run of the harness. It is what `simple_evaluate` runs: that also describes the
    machine, by many processes, and asks git about the folder."""
    random.seed(PYTHON_SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    asked = {"limit": limit, "bootstrap_iters": 0, "log_samples": False, "verbosity": "ERROR"}
    try:
        # The tasks are there; to list all others takes long.
        loaded = TaskManager(include_defaults=False).load(list(tasks))
        for task in loaded["tasks"].values():
            if task.get_config("num_fewshot") is None:
                task.set_config(key="num_fewshot", value=0)
            task.set_fewshot_seed(seed=SEED)
        found: Any = lm_eval.evaluator.evaluate(lm=lm, task_dict=loaded, **asked)
    except (HeadcountError, MemoryError):
        raise
    except Exception as error:  # of the harness, its task's own code, datasets or the hub: no common class
        raise HeadcountError(f"lm-evaluation-harness stopped: {in_short(error)}") from error
    finally:
        lm.close()
    return {
        (task, name.removesuffix(",none")): float(value)
        for task, by_metric in found["results"].items()
        for name, value in by_metric.items()
        if name not in NOT_METRICS and "_stderr" not in name and isinstance(value, int | float)
    }
