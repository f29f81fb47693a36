"""What a run leaves behind: its log as table and plot, the model, and a card that says what it is worth."""

import csv
import io
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from ..cache import write_file
from ..models.sparse_folder import ADAPTER, SparseFacts, save_gates
from .evaluation import Evaluation
from .trainee import Trainee

Rows = list[dict[str, float]]


def write_log(folder: Path, rows: Rows) -> None:
    table = io.StringIO()
    writer = csv.DictWriter(table, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: f"{value:.6g}" for name, value in row.items()})
    write_file(folder / "training.csv", table.getvalue())
    write_file(folder / "training.png", _plot(rows))


def _plot(rows: Rows) -> bytes:
    """Loss beside the dense model's, open edges, multipliers, against steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    loss, share, multiplier = figure.subplots(1, 3)
    steps = [row["step"] for row in rows]

    def series(name: str) -> list[float]:
        return [row[name] for row in rows]

    loss.plot(steps, series("dense_loss"), color="tab:blue", lw=1, label="dense")
    loss.plot(steps, series("loss"), color="tab:orange", lw=1, label="gates drawn")
    loss.set(title="Loss", ylabel="nats a token")
    loss.legend(frameon=False)
    share.plot(steps, [100 * value for value in series("open_share")], color="tab:orange", lw=1)
    share.set(title="Open edges", ylabel="% of causal edges", yscale="log")
    right = share.secondary_yaxis("right", functions=_keys_of_percent(rows[-1]))
    right.set_ylabel("keys a query")
    for name in ("mean", "tail"):
        if f"{name}_multiplier" in rows[0]:
            multiplier.plot(steps, series(f"{name}_multiplier"), lw=1, label=f"bound on the {name}")
    multiplier.set(title="Multipliers", yscale="log")
    multiplier.legend(frameon=False)
    for axes in (loss, share, multiplier):
        axes.set_xlabel("step")
        axes.spines[["top", "right"]].set_visible(False)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150)
    return image.getvalue()


def _keys_of_percent(row: dict[str, float]):  # type: ignore[no-untyped-def]
    per_percent = row["keys_a_query"] / (100 * row["open_share"]) if row["open_share"] else 1.0
    return (lambda percent: percent * per_percent, lambda keys: keys / per_percent)


def write_result(folder: Path, trainee: Trainee, facts: SparseFacts, evaluation: Evaluation, merge: bool) -> None:
    """The adapter in half precision, or whole weights; the gates; the card."""
    if trainee.peft is not None and not merge:
        trainee.peft.peft_config["default"].base_model_name_or_path = facts.base  # not where it lies on this machine
        trainee.peft.save_pretrained(str(folder))
        (folder / "README.md").unlink(missing_ok=True)  # peft's own card is an empty form
        halves = {name: tensor.to(torch.float16) for name, tensor in load_file(folder / ADAPTER).items()}
        save_file(halves, folder / ADAPTER, metadata={"format": "pt"})
    else:
        hf = trainee.model.hf if trainee.peft is None else trainee.peft.merge_and_unload()
        plain = {name: tensor for name, tensor in hf.state_dict().items() if ".headcount_gates." not in name}
        hf.set_attn_implementation("sdpa")
        hf.save_pretrained(str(folder), state_dict=plain)
        trainee.model.tokenizer.save_pretrained(str(folder))
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
    before = sum(earlier["steps"] for earlier in facts.made.get("earlier", []))
    begun = f" They went on from earlier runs of {before} steps, whose recipes are in sparse.json." if before else ""
    weights = f"an adapter of rank {recipe['lora']}" if recipe["lora"] else "all weights"
    return (
        f"# {facts.base}, {title}\n\nMade by `headcount sparsify` from {facts.base} (weights"
        f" {facts.base_fingerprint}): {weights}, {recipe['steps']} steps of {recipe['batch']} x {recipe['length']}"
        f" tokens of {', '.join(facts.made['text'])}.{begun} Load it with `headcount.load`.\n\n"
        f"On {found.sequences} held-out sequences, gates hard:\n\n| | |\n|---|---|\n{table}\n\n"
        f"| source | dense loss | loss | sequences |\n|---|---|---|---|\n{sources}\n\n"
        f"## Recipe\n\n| | |\n|---|---|\n{settings}\n"
    )
