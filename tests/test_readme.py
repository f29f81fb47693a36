"""The README's Python, run as it stands but for its sizes, on real weights."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from headcount.rank.probes.fit import ProbeFit

README = Path(__file__).parent.parent / "README.md"
SMALLER = {
    "n=200": "n=4",
    'keep="top")': 'keep="top", points=4, precision=0.2)',
    'hc.task("syntax", model), hc.QUICK': (
        'hc.task("syntax", model, n=4), hc.QUICK.changed(updates=1, seeds=1, batch=1)'
    ),
    "hc.questions()": "few(hc.questions())",
    "asked.questions)": "asked.questions, max_new_tokens=4)",
    "said.tokens[0])": "said.tokens[0], seeds=1, shuffles=1, fit=BRIEF)",
    "hc.sweep(model, task, edges)": "hc.sweep(model, task, edges, points=3, precision=0.9)",
    "max_new_tokens=20": "max_new_tokens=2",
}
"""What takes minutes in the README, and what the test puts in its place; each of them has to be there."""
FUNCTIONS = ("retrieval", "knowledge-recall")


def few(questions):
    """One question of each of two functions in every split, instead of hundreds of eight."""
    sides = ("train", "validation", "test")
    own = {side: [q for q in getattr(questions, side) if q.function in FUNCTIONS] for side in sides}
    return replace(questions, **{side: tuple(kept) for side, kept in own.items()}).limited(1)


def python_of_the_readme():
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    for words, fewer in SMALLER.items():
        assert words in block, f"the README no longer says {words}"
        block = block.replace(words, fewer)
    return block


@pytest.mark.parametrize("name", ["edges-kept", "head-roles", "masked-heads", "play"])
def test_captions_carry_no_numbers_of_their_own(name):
    """They would be stale with the next figure: numbers come from summary.json, between the marks that
    recipes/figures.py looks for."""
    (caption,) = re.findall(rf"figures/{name}\.png\)\n\n\*(.*?)\*\n\n", README.read_text(), re.DOTALL)
    assert not re.findall(r"(?<![\w-])\d[\d.,]*", caption)


@pytest.mark.slow
def test_the_python_section_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(python_of_the_readme(), "README.md", "exec"), {"few": few, "BRIEF": ProbeFit(epochs=2)})
    assert {path.name for path in tmp_path.iterdir()} == {"ioi.pdf", "circuit.svg"}
    said = capsys.readouterr().out
    assert re.search(r"\d+ heads, 90 % interval \d+ to \d+", said)
    assert re.search(r"[\d,]+ edges, 90 % interval [\d,]+ to [\d,]+", said)
