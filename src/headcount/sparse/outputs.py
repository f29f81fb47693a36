"""What a run leaves behind: its log as table and plot, the model, and a card that says what it is worth."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from ..core.files import write_file
from ..core.saving import Floats, csv_text
from ..models.adapters import ADAPTER
from ..models.gated_folder import SparseFacts, save_gates
from .evaluation import Evaluation
from .trainee import Trainee
from .training import Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DENSE_COLOUR, SPARSE_COLOUR = "#2f6db3", "#e8833a"
BOUND = "_multiplier"  # how the columns of the bounds' multipliers end
LOGS = ("training.csv", "training.png")


def write_log(folder: Path, rows: Rows) -> None:
    log, plot = LOGS
    write_file(folder / log, csv_text(rows))
    write_file(folder / plot, _plot(rows))


def _plot(rows: Rows) -> bytes:
    """Loss beside the dense model's, open edges, multipliers: every step faint, their running mean on top."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    gated = "open_share" in rows[0]
    figure = Figure(figsize=(10.5 if gated else 7.2, 3.2), layout="constrained")
    loss, *keys, multiplier = figure.subplots(1, 3 if gated else 2)
    steps = [row["step"] for row in rows]

    def line(axes: Any, name: str, colour: str, label: str = "") -> None:
        values = np.array([row[name] for row in rows])
        axes.plot(steps, values, color=colour, lw=0.6, alpha=0.3)
        axes.plot(steps, _running_mean(values), color=colour, lw=1.6, label=label)

    line(loss, "dense_loss", DENSE_COLOUR, "dense")
    line(loss, "loss", SPARSE_COLOUR, "gates drawn" if gated else "trained, no gates")
    loss.set(title="Loss", ylabel="nats per token")
    for axes in keys:
        line(axes, "keys_a_query", SPARSE_COLOUR)
        axes.set(title=f"Keys per query ({rows[-1]['open_share']:.2%} of the edges at the end)", yscale="log")
    bounds = [name for name in rows[0] if name.endswith(BOUND)]
    for number, name in enumerate(bounds):
        bound = name.removesuffix(BOUND)
        line(multiplier, name, f"C{number}", f"bound on the {bound}" if bound in ("mean", "tail") else bound)
    multiplier.set(title="Multipliers", yscale="log")
    for axes in (*keys, multiplier):
        for which in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            which(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "125" else ""))
    for axes in (loss, *keys, multiplier):
        axes.set_xlabel("step")
        axes.title.set_fontsize(10)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in (loss, multiplier):
        axes.legend(frameon=False, fontsize=8, loc="best")
    return png(figure)


def png(figure: "Figure") -> bytes:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150, metadata={"Software": None})
    return image.getvalue()


def _running_mean(values: Floats) -> Floats:
    """Over a thirtieth of the run, behind each step."""
    width = max(len(values) // 30, 1)
    summed, steps = np.concatenate([[0.0], np.cumsum(values)]), np.arange(1, len(values) + 1)
    first = np.maximum(steps - width, 0)
    return np.asarray((summed[1:] - summed[first]) / (steps - first))


def write_result(folder: Path, trainee: Trainee, facts: SparseFacts, evaluation: Evaluation, merge: bool) -> None:
    """The adapter in half precision, or whole weights; the gates; the card."""
    if trainee.peft is not None and not merge:
        config = trainee.peft.peft_config["default"]
        config.base_model_name_or_path = facts.base  # not where it lies on this machine
        config.target_modules = sorted(config.target_modules)  # a set, whose order would differ from run to run
        trainee.peft.save_pretrained(str(folder), save_embedding_layers=False)  # they are not trained
        (folder / "README.md").unlink(missing_ok=True)  # peft's own card is an empty form
        halves = {name: tensor.to(torch.float16) for name, tensor in load_file(folder / ADAPTER).items()}
        save_file(halves, folder / ADAPTER, metadata={"format": "pt"})
    else:
        hf = trainee.model.hf if trainee.peft is None else trainee.peft.merge_and_unload()
        plain = {name: tensor for name, tensor in hf.state_dict().items() if ".headcount_gates." not in name}
        own = hf.config._attn_implementation  # which nothing but headcount knows
        hf.set_attn_implementation("sdpa")
        hf.save_pretrained(str(folder), state_dict=plain)
        hf.set_attn_implementation(own)
        trainee.model.require_tokenizer().save_pretrained(str(folder))
    if trainee.gates:
        save_gates(folder, trainee.gates)
    facts.save(folder)
    write_file(folder / "README.md", card(facts, evaluation))


def card(facts: SparseFacts, found: Evaluation) -> str:
    recipe = facts.made["recipe"]
    title = "a dense control" if recipe["control"] else "sparse attention"
    table = "\n".join(f"| {name} | {value} |" for name, value in found.rows())
    sources = "\n".join(
        f"| {name} | {source['dense_loss']:.4f} | {source['loss']:.4f} | {source['sequences']:.0f} |"
        for name, source in found.by_source.items()
    )
    settings = "\n".join(f"| {name} | {value} |" for name, value in recipe.items() if value is not None)
    head, rows = found.task_rows()
    lines = [head, ("---",) * len(head), *rows]
    tasks = "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n" if rows else ""
    earlier = [run["steps"] for run in facts.made.get("earlier", [])]
    before = sum(steps for steps in earlier if isinstance(steps, int))
    begun = f" They went on from earlier runs of {before} steps, whose recipes are in sparse.json." if before else ""
    weights = f"an adapter of rank {recipe['lora']}" if recipe["lora"] else "all weights"
    return (
        f"# {facts.base}, {title}\n\nMade by `headcount sparsify` from {facts.base} (weights"
        f" {facts.base_fingerprint}): {weights}, {facts.steps} steps of {recipe['batch']} x {recipe['length']}"
        f" tokens of {', '.join(facts.made['text'])}.{begun} Load it with `headcount.load`.\n\n"
        f"On {found.in_words}:\n\n| | |\n|---|---|\n{table}\n\n"
        f"| source | dense loss | loss | sequences |\n|---|---|---|---|\n{sources}\n\n{tasks}"
        f"## Recipe\n\n| | |\n|---|---|\n{settings}\n"
    )
