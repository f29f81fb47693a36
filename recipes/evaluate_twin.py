"""What a twin is worth on text, whole files or the share that training held out, and on tasks; `--card` writes it into
its card.

python recipes/evaluate_twin.py smollm2-sparse --base smollm2 --text text/*.jsonl --sequences 400 --tasks ioi --card
python recipes/evaluate_twin.py smollm2-sparse --base smollm2 --text wikitext2-test.txt --whole
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch

import headcount as hc
from headcount.models.bundled import HOME
from headcount.models.gated_folder import SparseFacts
from headcount.models.gates import gates_of
from headcount.sparse.abilities import abilities
from headcount.sparse.evaluation import evaluate
from headcount.sparse.outputs import card
from headcount.sparse.text import read_text

ALMOST_ALL = 0.99


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("twin", help="a bundled name or a folder")
    parser.add_argument("--base", required=True, help="the dense model")
    parser.add_argument("--text", nargs="+", required=True)
    parser.add_argument("--tasks", nargs="+", default=[])
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--whole", action="store_true", help="on nearly all of the text, which training has not seen")
    parser.add_argument("--card", action="store_true", help="write the result into the twin's card and sparse.json")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    dense, twin = hc.load(given.base), hc.load(given.twin)
    recipe = hc.Recipe(length=given.length)
    if given.whole:
        recipe = recipe.changed(held_out=ALMOST_ALL)
    held_out = read_text(dense, given.text, recipe).held_out
    found = evaluate(twin, gates_of(twin), dense.logits, held_out, 4, given.sequences)
    tasks = [hc.task(name, dense) for name in given.tasks]
    found = found.with_tasks(abilities(dense, tasks), abilities(twin, tasks))
    for name, value in [*found.rows(), *((task, ", ".join(rest)) for task, *rest in found.task_rows()[1])]:
        print(f"{name:28} {value}")
    for source, losses in found.by_source.items():
        change = losses["loss"] / losses["dense_loss"] - 1
        print(
            f"{source:28} {losses['dense_loss']:.3f} -> {losses['loss']:.3f} ({change:+.1%}), {losses['sequences']:.0f}"
        )
    if given.card:
        folder = HOME / given.twin if (HOME / given.twin).is_dir() else Path(given.twin)
        facts = SparseFacts.load(folder)
        facts = replace(facts, made={**facts.made, "evaluation": found.to_dict()})
        facts.save(folder)
        (folder / "README.md").write_text(card(facts, found), encoding="utf-8")


if __name__ == "__main__":
    main()
