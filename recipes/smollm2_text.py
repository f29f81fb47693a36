"""The text that `smollm2-sparse` was trained on, cut to size from public sources and from what smollm2 wrote itself.

    python recipes/smollm2_text.py --data DATA --own own.jsonl --out text

DATA holds `text/` with four public-domain books and WikiText-2's validation split, and `tasks/` with GSM8K's train
split and CommonsenseQA. None of it is in this repository. GSM8K and CommonsenseQA are read as plain text, for names,
numbers and lists; the prompts of headcount's own tasks are nowhere in it.
"""

import argparse
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

BOOKS = {
    "american-adventures": 400_000,
    "historical-essays": 300_000,
    "news-from-nowhere": 400_000,
    "little-colonels-hero": 300_000,
}
"""Characters of each."""
PIECE = 2000


def pieces(file: Path, total: int) -> list[str]:
    """Pieces of one length, spread evenly over a text."""
    whole = "\n".join(line for line in file.read_text(encoding="utf-8").split("\n") if line.strip())
    count = total // PIECE
    step = len(whole) // count
    return [whole[i * step : i * step + PIECE] for i in range(count)]


def write(place: Path, documents: Iterable[str]) -> None:
    with place.open("w", encoding="utf-8") as file:
        for document in documents:
            file.write(json.dumps({"text": document}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--own", type=Path, required=True, help="what recipes/own_text.py wrote")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for book, characters in BOOKS.items():
        write(given.out / f"{book}.jsonl", pieces(given.data / "text" / f"{book}.txt", characters))
    write(given.out / "wikitext.jsonl", pieces(given.data / "text" / "wikitext2-valid.txt", 1_000_000))
    with (given.data / "tasks" / "gsm8k-train.jsonl").open(encoding="utf-8") as file:
        problems = [json.loads(line) for line in file][:1500]
    write(given.out / "gsm8k.jsonl", (f"Question: {p['question']}\nAnswer: {p['answer']}" for p in problems))
    asked = json.loads((given.data / "tasks" / "commonsense-qa.json").read_text(encoding="utf-8"))[:1000]
    write(given.out / "commonsense.jsonl", (f"{question['input']}\nAnswer: {question['output']}" for question in asked))
    for name in ("own", "own-again"):  # twice: it is what the model does, and there is little of it
        shutil.copy(given.own, given.out / f"{name}.jsonl")


if __name__ == "__main__":
    main()
