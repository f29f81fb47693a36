"""`headcount.sparsify`: the whole way from a model and text to a folder that `headcount.load` takes."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from accelerate import Accelerator

from ..core.errors import HeadcountError
from ..core.files import LEAST_SPACE, fill_folder, writable_folder
from ..core.progress import progress_bar, say
from ..core.provenance import versions
from ..core.reading import local_path
from ..core.registry import resolve
from ..meters.memory import free_memory, show_bytes
from ..meters.speed import require_end
from ..models import NAMED, Model, gated_folder, load, takes_base
from ..models.adapters import ADAPTER, has_adapter
from ..models.changes import leaves_no_trace
from ..models.gated_folder import CHECKPOINT, FACTS, Made, SparseFacts, is_sparse, is_unfinished
from ..models.gates import gates_of
from ..tasks import task
from .abilities import abilities
from .allocator import keep_freed_memory
from .evaluation import Evaluation, evaluate
from .ladder import rung_name, write_ladder
from .outputs import LOGS, write_log, write_result
from .recipe import Recipe
from .text import read_text
from .trainee import Trainee, make_trainee, start_sinks
from .training import Rows, train

CHECKPOINTS = 7
"""Room for two checkpoints at once, each the trained weights and two means of Adam's, and for the result."""
FORWARDS, LOGITS = 4, 3
"""What a step costs, in forward passes of its batch (the dense model's, its own and twice that back), and how many
times the logits of a batch are held, as float32 (of both models, and their gradient)."""
REPORT = "headcount.studies.report:write_report"
"""Pages are made in a room below, so it is looked up late."""


@leaves_no_trace
def sparsify(
    source: str | Path,
    text: Sequence[str] | str,
    out: str | Path,
    recipe: Recipe | None = None,
    *,
    tasks: Sequence[str] = (),
    start_from: str | Path | None = None,
    merge: bool = False,
    device: str | None = None,
    base: str | Path | None = None,
    revision: str | None = None,
    long: bool = False,
    quiet: bool = False,
) -> Evaluation:
    """Turn a model into its sparse twin, and write it to a folder that `headcount.load` takes.

    **Arguments:**

    - `source`: the dense model: a name, a folder or a hub id.
    - `text`: files, folders, or names of datasets. The last share of each is held out.
    - `out`: the folder. A run that was killed goes on from the checkpoint there, to the same result.
    - `recipe`: the settings; see `Recipe`.
    - `tasks`: what the result is tried on beside the dense model: accuracy, and how much it attends to there.
    - `start_from`: the folder of an earlier result, whose adapter and gates training begins with.
    - `merge`: write whole weights also where adapters were trained.
    - `base`, `revision`: of the dense model, as `headcount.load` takes them.
    - `long`: whether it may take more than a week.

    Returns what the result is worth on held-out text, gates hard; the same is in its card.
    """
    keep_freed_memory()
    recipe = recipe or Recipe()
    folder = writable_folder(local_path(out))
    accelerator = Accelerator(cpu=device == "cpu")
    _require_own(folder)
    # All weights are trained in full precision; under adapters they may stay in the checkpoint's own.
    dtype = torch.float32 if recipe.lora is None else None
    told: dict[str, Any] = {"revision": revision} if revision else {}
    model = load(source, device=device or str(accelerator.device), dtype=dtype, base=base, **told)
    if gates_of(model):
        raise HeadcountError(
            f"{model.name} is sparse already. Give its dense base; --start-from goes on with the adapter of an earlier"
            " run."
        )
    if recipe.lora is not None and not merge and takes_base(str(source), **told):
        raise HeadcountError(f"{source} is an adapter, on which no other can go. Give --merge, for whole weights.")
    if recipe.target_open and (recipe.control or len(recipe.target_open) > recipe.steps):
        why = "A control has no gates" if recipe.control else "Every share of --target-open needs a step of its own"
        raise HeadcountError(f"{why}. Leave out --target-open, or give it fewer shares.")
    if recipe.target_open and (recipe.by_source or recipe.tail):
        raise HeadcountError(
            "--target-open bounds the share of open edges, --by-source and --tail what may be lost. Give one or the"
            " other."
        )
    length, longest = recipe.length, getattr(model.hf.config, "max_position_embeddings", None)
    if longest is not None and length > longest:
        raise HeadcountError(f"{model.name} reads {longest} tokens at most, and sequences of {length} are wanted.")
    if uneven := [piece for piece in recipe.pieces if length % piece or piece == length]:
        raise HeadcountError(
            f"Sequences of {length} tokens cannot be cut into pieces of {uneven[0]}. Give divisors of it."
        )
    model.require_tokenizer()
    _require_end(model, recipe, long)
    sources = [text] if isinstance(text, str) else list(text)
    sequences = read_text(model, sources, recipe)
    tried = [task(name, model) for name in tasks]
    before = abilities(model, tried)
    weights = model.weights_hash, str(model.hf.dtype), gated_folder.weight_norms(model)
    origin = f"{model.weights_hash} {_sha256(sequences.train.numpy().tobytes())}"
    earlier = None if start_from is None else local_path(start_from)
    if earlier is not None:
        origin += _require_start(earlier, model, recipe)
    trainee = make_trainee(model, recipe)
    trained = sum(each.numel() * each.element_size() for each in trainee.parameters.values())
    writable_folder(folder, LEAST_SPACE + CHECKPOINTS * trained)
    new_sinks = bool(trainee.gates) and recipe.sinks and not (earlier and gated_folder.has_sinks(earlier))
    if earlier is not None:
        _begin_with(trainee, earlier, new_sinks)
    if new_sinks:
        start_sinks(trainee, sequences.batch(recipe, 0)[0].to(model.device))
    with progress_bar(recipe.steps, quiet=quiet or not accelerator.is_main_process) as bar:

        def report(rows: Rows, new: int) -> None:
            bar.describe(f"{model.name} · {'dense control' if recipe.control else 'sparse'}")
            bar.advance(new)
            bar.note(in_words(rows[-1]))
            if accelerator.is_main_process and len(rows) % recipe.checkpoint_every == 0:
                write_log(folder, rows)
                if not quiet:
                    say(f"step {len(rows)} of {recipe.steps}: {in_words(rows[-1])}")

        def finish(place: Path, rows: Rows, merge: bool) -> Evaluation:
            bar.describe(f"{model.name} · evaluation on held-out text")
            shown = sequences.held_out, recipe.batch, recipe.evaluate_sequences
            found = evaluate(model, trainee.gates, trainee.dense_logits, *shown)
            found = found.with_tasks(before, abilities(model, tried))
            made: Made = {
                "recipe": recipe.facts(),
                "steps": len(rows),
                "text": [Path(each).name for each in sources],
                "versions": versions(),
                "earlier": [] if earlier is None else SparseFacts.load(earlier).history(),
                "evaluation": found.to_dict(),
            }
            if accelerator.is_main_process:
                form = None if recipe.control else recipe.form
                facts = SparseFacts(form, recipe.sharpness, _lasting(source), *weights, made, revision)
                with fill_folder(place, first=FACTS) as unfinished:
                    write_log(unfinished, rows)
                    write_result(unfinished, trainee, facts, found, merge)
                    cast(Callable[[Path], Path], resolve(REPORT))(unfinished)
            return found

        def rung_done(rung: int, rows: Rows) -> None:
            finish(folder / rung_name(recipe, rung), rows, merge=False)

        rows = train(trainee, sequences, recipe, folder, accelerator, report, rung_done, origin)
        found = finish(folder, rows, merge)
    if accelerator.is_main_process:
        if recipe.target_open:
            write_ladder(folder, recipe)
        (folder / CHECKPOINT).unlink()  # with which the run has ended
    accelerator.end_training()
    return found


def _require_own(folder: Path) -> None:
    """Nobody else's files are written over: a folder is empty, or that of a run that was stopped."""
    if is_unfinished(folder):
        return
    if is_sparse(folder):
        raise HeadcountError(f"{folder} holds a finished model. Give another --out, or delete it to train it again.")
    others = sorted(path.name for path in folder.iterdir() if path.name not in LOGS and not path.name.startswith("."))
    if others:
        raise HeadcountError(
            f"{folder} holds other files ({', '.join(others[:3])}{' …' if others[3:] else ''}). Give --out a new or an"
            " empty folder."
        )


def _require_end(model: Model, recipe: Recipe, long: bool) -> None:
    """Refuse a batch that the machine cannot hold, and steps that would take longer than a week."""
    tokens = recipe.batch * recipe.length
    needed, free = tokens * model.vocabulary * LOGITS * 4, free_memory(model.device)
    if free is not None and needed > free:
        raise HeadcountError(
            f"The logits of {recipe.batch:,} sequences of {recipe.length:,} tokens take {show_bytes(needed)}, and"
            f" {show_bytes(free)} are free on {model.device}. Give a smaller --batch or --length."
        )
    require_end({model: float(FORWARDS * recipe.steps * tokens)}, long, "Give fewer --steps or a smaller --batch")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _lasting(source: str | Path) -> str:
    """A name or hub id as it is; a folder by its whole path, to be found from anywhere."""
    place = local_path(source)
    return str(place.resolve()) if place.is_dir() and str(source) not in NAMED else str(source)


def _require_start(folder: Path, model: Model, recipe: Recipe) -> str:
    """Refuse an earlier result that training cannot begin with; a hash of the one that it can."""
    if recipe.lora is None or not (is_sparse(folder) and has_adapter(folder)):
        raise HeadcountError(
            f"--start-from takes the folder of an adapter that headcount sparsify wrote, and --lora with its rank; got"
            f" {folder}."
        )
    facts = SparseFacts.load(folder)
    if (facts.form is None) != recipe.control:
        kind = "a dense control" if facts.form is None else "a sparse model"
        raise HeadcountError(f"{folder} is {kind}; a run goes on from one of its own kind, with or without --control.")
    if facts.form is not None and (facts.form, facts.sharpness) != (recipe.form, recipe.sharpness):
        raise HeadcountError(f"The gates in {folder} are {facts.form}, of sharpness {facts.sharpness}; give the same.")
    if facts.form is not None and gated_folder.has_sinks(folder) and not recipe.sinks:
        raise HeadcountError(f"The heads in {folder} have sinks. Give --sinks to go on with them.")
    if facts.made["recipe"]["lora"] != recipe.lora:
        raise HeadcountError(f"The adapter in {folder} has the rank {facts.made['recipe']['lora']}; give --lora so.")
    if (place := facts.made["recipe"].get("lora_on", "attention")) != recipe.lora_on:
        raise HeadcountError(f"The adapter in {folder} is on {place}; give --lora-on {place}.")
    gated_folder.require_base(facts, model, folder)
    return _sha256((folder / ADAPTER).read_bytes())


def _begin_with(trainee: Trainee, folder: Path, new_sinks: bool) -> None:
    """The adapter and gates of an earlier result, which may have had no sinks."""
    from peft import load_peft_weights, set_peft_model_state_dict

    set_peft_model_state_dict(trainee.peft, load_peft_weights(str(folder), device="cpu"))
    if trainee.gates:
        gated_folder.read_gates(trainee.gates, folder, new_sinks)


def in_words(row: dict[str, float]) -> str:
    """How training stands."""
    gates = ""
    if "open_share" in row:
        keys, empty = row["keys_a_query"], row["empty_rows"]
        gates = f" · open {row['open_share']:.2%} · {keys:.2f} keys per query · {empty:.0%} of rows empty"
    multipliers = ", ".join(f"{value:.3g}" for name, value in row.items() if name.endswith("multiplier"))
    return f"loss {row['loss']:.3f} (dense {row['dense_loss']:.3f}){gates} · multiplier {multipliers}"
