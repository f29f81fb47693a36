"""What a twin is worth on text, whole files or the share that training held out, and on tasks; `--card` writes it into
its card, `--docs` a table of it into docs/models.md. Without text it is what its card says.

python recipes/evaluate_twin.py smollm2-sparse --base smollm2 --text text/*.jsonl --sequences 400 --tasks ioi --card
python recipes/evaluate_twin.py smollm2-sparse --base smollm2 --text wikitext2-test.txt --whole
python recipes/evaluate_twin.py smollm2-sparse --docs
python recipes/evaluate_twin.py smollm2-sparse --text text/*.jsonl --sinks
"""

import argparse
import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch

import headcount as hc
from headcount.models.bundled import HOME
from headcount.models.gated_folder import SparseFacts
from headcount.models.gates import counted, gates_of
from headcount.sparse.abilities import abilities
from headcount.sparse.evaluation import Evaluation, evaluate
from headcount.sparse.ladder import evaluation_of
from headcount.sparse.outputs import card
from headcount.sparse.text import read_text

ALMOST_ALL = 0.99
PAGE, PLACE = Path(__file__).parent.parent / "docs" / "models.md", r"(<!-- twin: {name} -->\n).*?(<!-- end -->)"


def measured(given: argparse.Namespace) -> Evaluation:
    dense, twin = hc.load(given.base), hc.load(given.twin)
    recipe = hc.Recipe(length=given.length)
    if given.whole:
        recipe = recipe.changed(held_out=ALMOST_ALL)
    held_out = read_text(dense, given.text, recipe).held_out
    found = evaluate(twin, gates_of(twin), dense.logits, held_out, 4, given.sequences)
    tasks = [hc.task(name, dense) for name in given.tasks]
    return found.with_tasks(abilities(dense, tasks), abilities(twin, tasks))


@torch.no_grad()
def sinks_used(given: argparse.Namespace) -> str:
    """How many heads give much of their attention to their sinks, at the mean of their other logits."""
    twin = hc.load(given.twin)
    layers = gates_of(twin)
    if not layers or layers[0].sink is None:
        return "no sinks"
    held_out = read_text(twin, given.text, hc.Recipe(length=given.length)).held_out
    ids = torch.cat([sequences[:2] for sequences in held_out.values()])
    with counted(layers) as ledger:
        twin.run(ids)
    pairs = zip(layers, ledger.logits, strict=True)
    taken = torch.stack([torch.sigmoid(cast(torch.Tensor, layer.sink) - logits) for layer, logits in pairs])
    most = ", ".join(f"more than {share:.0%} in {int((taken > share).sum())}" for share in (0.1, 0.5))
    return f"sinks take {most} of {taken.numel()} heads, {len(ids)} held-out sequences"


def tables(found: Evaluation) -> str:
    """In Markdown: on text and by source, then on tasks."""
    rows = [("", f"{found.in_words}, T = {found.length}"), ("---", "---"), *found.rows()]
    for source, of in found.by_source.items():
        change, count = of["loss"] / of["dense_loss"] - 1, f"{of['sequences']:.0f} sequences"
        rows.append((source, f"{of['dense_loss']:.3f} → {of['loss']:.3f} ({change:+.1%}), {count}"))
    head, of_tasks = found.task_rows()
    parts = [rows, [head, ("---",) * len(head), *of_tasks]] if of_tasks else [rows]
    return "\n".join("".join(f"| {' | '.join(row)} |\n" for row in part) for part in parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("twin", help="a bundled name or a folder")
    parser.add_argument("--base", help="the dense model")
    parser.add_argument("--text", nargs="+", default=[])
    parser.add_argument("--tasks", nargs="+", default=[])
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--whole", action="store_true", help="on nearly all of the text, which training has not seen")
    parser.add_argument("--sinks", action="store_true", help="only tell how much sinks are used on the text")
    parser.add_argument("--card", action="store_true", help="write the result into the twin's card and sparse.json")
    parser.add_argument("--docs", action="store_true", help="write the result into docs/models.md")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.sinks:
        print(sinks_used(given))
        return
    folder = HOME / given.twin if (HOME / given.twin).is_dir() else Path(given.twin)
    found = measured(given) if given.text else evaluation_of(folder)
    print(tables(found))
    if given.card:
        facts = SparseFacts.load(folder)
        facts = replace(facts, made={**facts.made, "evaluation": found.to_dict()})
        facts.save(folder)
        (folder / "README.md").write_text(card(facts, found), encoding="utf-8")
    if given.docs:
        place = re.compile(PLACE.format(name=given.twin), re.DOTALL)
        PAGE.write_text(place.sub(lambda match: match[1] + tables(found) + match[2], PAGE.read_text()))


if __name__ == "__main__":
    main()
