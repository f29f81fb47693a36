"""Task files of every kind, questions and texts."""

import csv
import io
import json

from fuzz.mutations import changed_bytes, changed_json, changed_value
from fuzz.sound_inputs import COGQA, IDS, ITEMS, LM_EVAL, PAIRS, SETS

SHOW = ("--model", "m", "-n", "1")


def jsonl(home, rng):
    home.called(
        "tasks", "show", home.written("t.jsonl", changed_json(rng.choice((PAIRS, IDS, ITEMS)), rng, lines=True)), *SHOW
    )


def checked(home, rng):
    """Line by line, and written again."""
    name = home.written("t.jsonl", changed_json(rng.choice((PAIRS, IDS, ITEMS)), rng, lines=True))
    home.called("tasks", "check", name, "--model", "m", *(["--fix-space"] if rng.random() < 0.5 else []))


def own_file(home, rng):
    """The same lines as JSON, CSV, Parquet and a saved dataset."""
    rows, kind = rng.choice((PAIRS, ITEMS)), rng.choice(("json", "csv", "parquet", "dataset"))
    if kind == "json":
        return home.called("tasks", "show", home.written("t.json", changed_json(rows, rng)), *SHOW)
    if kind == "csv":
        return home.called("tasks", "show", home.written("t.csv", changed_bytes(_csv(rows), rng)), *SHOW)
    if kind == "parquet":
        data = _parquet(changed_value(rows, rng) if rng.random() < 0.6 else rows)
        return home.called(
            "tasks", "show", home.written("t.parquet", changed_bytes(data, rng) if rng.random() < 0.5 else data), *SHOW
        )
    import datasets

    datasets.Dataset.from_list(rows).save_to_disk(home.place / "saved")
    home.change(rng.choice(sorted((home.place / "saved").iterdir())), rng)
    return home.called("tasks", "show", "dataset:saved", *SHOW)


def _csv(rows):
    out = io.StringIO()
    texts = [
        {key: value if isinstance(value, str) else json.dumps(value) for key, value in row.items()} for row in rows
    ]
    writer = csv.DictWriter(out, list(texts[0]))
    writer.writeheader()
    writer.writerows(texts)
    return out.getvalue().encode()


def _parquet(rows):
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    try:
        table = pyarrow.Table.from_pylist(rows)
        parquet.write_table(table, out)
    except Exception:  # what Parquet cannot hold is no case
        return _parquet(PAIRS)
    return out.getvalue()


def known_set(home, rng):
    name, way = rng.choice(list(SETS)), rng.random()
    if way < 0.25:
        file = home.written("r.csv", changed_bytes(_csv(SETS[name]), rng))
    elif way < 0.35:
        data = _parquet(changed_value(SETS[name], rng))
        file = home.written("r.parquet", changed_bytes(data, rng) if rng.random() < 0.3 else data)
    else:
        file = home.written("r.jsonl", changed_json(SETS[name], rng, lines=rng.random() < 0.7))
    home.called("tasks", "show", f"{name}:{file}", *SHOW)


def lm_eval(home, rng):
    """A task file, with data beside it that `datasets` need not read again for every case."""
    import yaml

    made = changed_value(LM_EVAL, rng) if rng.random() < 0.7 else LM_EVAL
    data = yaml.safe_dump(made, allow_unicode=True).encode(errors="surrogatepass")
    home.written("own.yaml", changed_bytes(data, rng) if rng.random() < 0.4 else data)
    rows = [{"thing": f"thing {n}", "colours": ["red", "blue"], "answer": n % 2} for n in range(6)]
    for side in ("train", "test"):
        home.written(f"{side}.json", changed_json(rows, rng) if rng.random() < 0.1 else json.dumps(rows).encode())
    home.called("tasks", "show", "lm-eval:own.yaml", *SHOW)


def questions(home, rng):
    home.written("q.json", changed_json(COGQA, rng, lines=rng.random() < 0.5))
    home.called("questions", "--questions", "q.json", "-n", "1")


def text(home, rng):
    from headcount.sparse.recipe import Recipe
    from headcount.sparse.text import read_text

    lines = [{"text": "We saw John and Mary. " * 20}] * 6
    home.written("t.jsonl", changed_json(lines, rng, lines=True))
    settings = {"length": 16, "held_out": rng.choice((0.05, 0.5, 0.9, 0.99))}
    read_text(home.model, [str(home.place / "t.jsonl")], Recipe(**settings))


READERS = {
    "jsonl": (12, jsonl), "checked": (4, checked), "own file": (8, own_file), "set": (10, known_set),
    "lm-eval": (2, lm_eval), "questions": (8, questions), "text": (4, text),
}  # fmt: skip
