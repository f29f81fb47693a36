"""The text that `smollm2-sparse` was trained on, cut to size from public sources and from what smollm2 wrote itself.

    python recipes/smollm2_text.py --data DATA --own own.jsonl --out text

DATA holds `text/` with four public-domain books and WikiText-2's validation split, and `tasks/` with GSM8K's train
split and CommonsenseQA. Code is what is installed here: documented functions of Python's standard library and of
packages that constraints.txt pins. None of it is in this repository. GSM8K and CommonsenseQA are read as plain text,
for names, numbers and lists; the prompts of headcount's own tasks are nowhere in it.
"""

import argparse
import ast
import json
import random
import re
import shutil
import sysconfig
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

BOOKS = ("american-adventures", "historical-essays", "news-from-nowhere", "little-colonels-hero")
PROBLEMS, QUESTIONS = 2500, 4000
"""Of GSM8K and of CommonsenseQA, the first ones."""
PACKAGES = "nltk urllib3 requests anyio lm_eval PIL filelock pip sacrebleu dateutil jinja2 setuptools".split()
MORE = "click _pytest torch packaging platformdirs pydantic pyparsing markdown_it ray idna sklearn".split()
"""Packages whose functions are read for `parameters` alone."""
PIECE, CODE = 2000, 1_500_000
"""Characters of a document, and of all code."""
DOCUMENTED = (":param", "Args:", "Parameters\n", "Arguments:")
PARAMETER = re.compile(r":param (?:[\w.\[\], ]+ )?(\w+):")


def pieces(file: Path) -> list[str]:
    whole = "\n".join(line for line in file.read_text(encoding="utf-8").split("\n") if line.strip())
    return [whole[at : at + PIECE] for at in range(0, len(whole), PIECE)]


def functions(folder: Path) -> Iterator[str]:
    """Functions and methods with a docstring, each as it stands, without what its class indents it by."""
    for file in sorted(folder.rglob("*.py")):
        inside = file.relative_to(folder).parts
        if any(part.startswith("test") or part in ("site-packages", "_vendor") for part in inside):
            continue
        text = file.read_text(encoding="utf-8", errors="ignore")
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        lines = text.splitlines()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
                yield textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))[:PIECE]


def code() -> list[str]:
    """Those that document their parameters first, then others, up to `CODE` characters; in random order."""
    places = sysconfig.get_paths()
    folders = [Path(places["stdlib"]), *(Path(places["purelib"]) / package for package in PACKAGES)]
    found = sorted({each for folder in folders for each in functions(folder)})
    random.Random(0).shuffle(found)
    found.sort(key=lambda each: not any(mark in each for mark in DOCUMENTED))
    chosen, length = list[str](), 0
    for each in found:
        if length < CODE:
            chosen.append(each)
            length += len(each)
    random.Random(1).shuffle(chosen)
    return chosen


def parameters(code: list[str]) -> list[str]:
    """Signatures and docstrings of two `:param` or more with the names of other functions' parameters, so that these
    must be read from the signature; of `MORE` packages also as they stand. What is held out of `code` is left out."""
    purelib = Path(sysconfig.get_paths()["purelib"])
    more = sorted({each for package in MORE for each in functions(purelib / package)} - set(code))
    heads = list[tuple[str, list[str]]]()
    for each in [*code[: int(0.9 * len(code))], *more]:
        names = list(dict.fromkeys(PARAMETER.findall(each)))
        end = each.find('"""', each.find('"""') + 3)
        if len(names) > 1 and end > 0:
            heads.append((each[: end + 3], names))
    pool = sorted({name for _, names in heads for name in names})
    rng, found = random.Random(2), list[str]()
    for head, names in heads:
        found += [head] * (not any(each.startswith(head) for each in code))
        new = dict(zip(names, rng.sample(pool, len(names)), strict=True))
        any_name = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")
        found.append(any_name.sub(lambda match, new=new: new[match[1]], head))
    rng.shuffle(found)
    return found


def write(place: Path, documents: Iterable[str]) -> None:
    with place.open("w", encoding="utf-8") as file:
        for document in documents:
            file.write(json.dumps({"text": document}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--own", type=Path, required=True, help="what recipes/own_text.py wrote")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for book in BOOKS:
        write(given.out / f"{book}.jsonl", pieces(given.data / "text" / f"{book}.txt"))
    write(given.out / "wikitext.jsonl", pieces(given.data / "text" / "wikitext2-valid.txt"))
    with (given.data / "tasks" / "gsm8k-train.jsonl").open(encoding="utf-8") as file:
        problems = [json.loads(line) for line in file][:PROBLEMS]
    write(given.out / "gsm8k.jsonl", (f"Question: {p['question']}\nAnswer: {p['answer']}" for p in problems))
    asked = json.loads((given.data / "tasks" / "commonsense-qa.json").read_text(encoding="utf-8"))[:QUESTIONS]
    write(given.out / "commonsense.jsonl", (f"{question['input']}\nAnswer: {question['output']}" for question in asked))
    documented = code()
    write(given.out / "code.jsonl", documented)
    write(given.out / "parameters.jsonl", parameters(documented))
    shutil.copy(given.own, given.out / "own.jsonl")


if __name__ == "__main__":
    main()
