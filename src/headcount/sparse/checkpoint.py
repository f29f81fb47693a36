"""Where a training run stands, in one file that is whole or absent: weights, Adam's means, multipliers, the log."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialise
from torch import Tensor, nn

from ..core.errors import HeadcountError
from ..core.files import write_file
from .objective import Bound

FILE = "checkpoint.safetensors"
MOMENTS = ("exp_avg", "exp_avg_sq", "step")


@dataclass(frozen=True)
class Training:
    """What changes in the course of a run."""

    parameters: dict[str, nn.Parameter]
    optimizer: torch.optim.Optimizer
    bounds: list[Bound]
    rows: list[dict[str, float]]
    """The log, one entry a step."""

    def save(self, folder: Path, key: str) -> None:
        tensors: dict[str, Tensor] = {}
        for name, parameter in self.parameters.items():
            tensors[f"weight/{name}"] = parameter.detach().cpu().contiguous()
            for moment, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"{moment}/{name}"] = value.detach().cpu().contiguous()
        state = {
            "key": key,
            "rows": json.dumps(self.rows),
            "bounds": json.dumps([vars(bound) for bound in self.bounds]),
        }
        write_file(folder / FILE, serialise(tensors, state))

    def restore(self, folder: Path, key: str) -> int:
        """Go on where an earlier run stopped, if it was the same run; the number of steps that are done."""
        path = folder / FILE
        if not path.exists():
            return 0
        try:
            with safe_open(path, framework="pt") as file:
                state = file.metadata()
                if state["key"] != key:
                    raise HeadcountError(
                        f"{folder} holds a checkpoint of another run (other text, model or settings). Give the settings"
                        " it was begun with to go on, another --out, or delete the checkpoint to begin anew."
                    )
                tensors = {name: file.get_tensor(name) for name in file.offset_keys()}
        except (OSError, SafetensorError, KeyError, TypeError) as error:
            raise HeadcountError(f"The checkpoint {path} cannot be read; delete it to begin anew. ({error})") from error
        self.rows[:] = json.loads(state["rows"])
        for bound, saved in zip(self.bounds, json.loads(state["bounds"]), strict=True):
            vars(bound).update(saved)
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors[f"weight/{name}"])
                moments: dict[str, Any] = {
                    moment: tensors[f"{moment}/{name}"] for moment in MOMENTS if f"{moment}/{name}" in tensors
                }
                if moments:
                    # Adam counts its steps on the CPU.
                    self.optimizer.state[parameter] = {
                        moment: value if moment == "step" else value.to(parameter.device)
                        for moment, value in moments.items()
                    }
        return len(self.rows)
