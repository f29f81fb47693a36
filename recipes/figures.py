"""Draw the figures of README and docs again, and put the numbers beside them in their place.

    python recipes/figures.py                      all of them: hours on two cores
    python recipes/figures.py heads-kept           some, by name

Each is a named study, or a recipe that trains twins first; its figure becomes docs/figures/NAME.png, and what else is
shown of it lies beside that. Text between `<!-- numbers: NAME -->` and `<!-- end -->` is written anew from the study's
summary.json, with the command and the version that gave it. Steps that are in the cache are not computed again.
"""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import headcount as hc

HOME = Path(__file__).parent.parent
NUMBERS = r"(<!-- numbers: {name} -->\n).*?(<!-- end -->)"


@dataclass(frozen=True)
class Drawn:
    """A study, and the page whose numbers come from it."""

    study: str
    models: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    quick: bool = True
    page: str = "README.md"
    also: tuple[tuple[str, str], ...] = ()
    """Other files of the study that are shown, and their names in docs/figures."""

    @property
    def command(self) -> str:
        given = [f"--model {model}" for model in self.models] + [f"--task {task}" for task in self.tasks]
        return " ".join(["headcount run", self.study, *given, *["--quick"] * self.quick])


FIGURES = {
    "heads-kept": Drawn("heads-kept", ("smollm2",), quick=False),
    "edges-kept": Drawn("edges-kept", also=(("edges/ioi-smollm2/circuit.svg", "ioi-circuit.svg"),)),
    "attention-edges-kept": Drawn("attention-edges-kept", page="docs/studies/attention-edges-kept.md"),
    "head-roles": Drawn("head-roles"),
    "masked-heads": Drawn(
        "masked-heads",
        page="docs/studies/masked-heads.md",
        also=(("heads.png", "masked-heads-functions.png"),),
    ),
}
RECIPES = {
    "tiny-ladder": ("ladder.py", "--steps", "800"),  # 200 for each of its four shares
    "objectives": ("objectives.py",),
}
"""Twins that are trained for a figure, each by a recipe of its own, which puts it into the docs."""


def train_and_draw(name: str) -> None:
    recipe, *options = RECIPES[name]
    out = HOME / "headcount-results" / f"figure-{name}"
    subprocess.run([sys.executable, HOME / "recipes" / recipe, "--out", out, *options, "--docs"], check=True)


def draw(name: str) -> None:
    drawn = FIGURES[name]
    out = HOME / "headcount-results" / f"figure-{name}"
    result = hc.run(drawn.study, models=drawn.models or None, tasks=drawn.tasks or None, quick=drawn.quick, out=out)
    shutil.copyfile(out / "figure.png", HOME / "docs" / "figures" / f"{name}.png")
    for file, name_there in drawn.also:
        shutil.copyfile(out / file, HOME / "docs" / "figures" / name_there)
    path = HOME / drawn.page
    text, found = re.subn(
        NUMBERS.format(name=name), lambda match: match[1] + numbers(drawn, result.summary) + match[2], path.read_text(),
        flags=re.DOTALL,
    )  # fmt: skip
    path.write_text(text)
    print(f"{name}: {out}; {'numbers in ' + drawn.page if found else 'no numbers'}")


def numbers(drawn: Drawn, summary: Any) -> str:
    """A line for each answer, and where it comes from."""
    origin = f"`{drawn.command}`, headcount {hc.__version__}, {date.today().isoformat()}"
    answers = masked_rows(summary) if drawn.study == "masked-heads" else kept_lines(summary)
    return "\n".join([*answers, "", f"({origin}.)", ""])


def kept_lines(summary: Any) -> list[str]:
    return [f"- {entry['words']}" for entry in summary["curves"] if entry.get("words")]


def masked_rows(summary: Any) -> list[str]:
    """A table of functions: the whole model's accuracy, and where the top heads lie among the draws of each control."""
    rows = [
        f"| {cell['function']} | {cell['unmasked'][cell['metric']]:.2f} | {cell['words']['chance']} |"
        f" {cell['words']['chance-matched']} |"
        for cell in summary["cells"]
    ]
    return [
        "| function | unmasked | top heads, among random ones | among layer-matched ones |",
        "|---|---|---|---|",
        *rows,
    ]


if __name__ == "__main__":
    for wanted in sys.argv[1:] or [*FIGURES, *RECIPES]:
        (train_and_draw if wanted in RECIPES else draw)(wanted)
