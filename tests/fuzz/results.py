"""What headcount wrote itself, changed by others: scores, output folders, reports. Half of them lose the hash by which
every change is noticed, so that what is behind it is read too."""

import json
from contextlib import suppress

from fuzz.home import WrongError

FACTS = ("report.json", "summary.json", "provenance.json", "study.toml", "curves.csv")


def unstamped(place, rng):
    """Half of the times without the hashes in the JSON files of a folder."""
    if rng.random() < 0.5:
        return
    for path in place.rglob("*.json"):
        with suppress(ValueError, RecursionError):
            facts = json.loads(path.read_bytes())
            if isinstance(facts, dict) and facts.pop("sha256", None):
                path.write_text(json.dumps(facts))


def scores(home, rng):
    from headcount.rank.comparison import compare_scores, load_scores

    place, whole = home.copied(home.scores), load_scores(home.scores)
    home.change(rng.choice(sorted(place.iterdir())), rng)
    unstamped(place, rng)
    found, facts = load_scores(place), json.loads((place / "scores.json").read_text())
    if found.by_pair.tobytes() != whole.by_pair.tobytes() and "sha256" in facts:
        raise WrongError("other scores, without a word")
    compare_scores([whole, found])


def opened(home, rng):
    """And what users do first with a run that they have opened."""
    import headcount as hc

    place = home.copied(home.results[rng.choice(list(home.results))], "result")
    inner = [path for path in sorted(place.rglob("*")) if path.is_file() and path.suffix in (".json", ".safetensors")]
    home.change(rng.choice(inner) if rng.random() < 0.6 else place / rng.choice(FACTS), rng)
    unstamped(place, rng)
    run = hc.open(place)
    for curve in run.curves:
        curve.rows()
        run.repeats(curve)
    run.circuits()


def report(home, rng):
    """The page again, from report.json or, without it, from the other files."""
    place = home.copied(home.results[rng.choice(list(home.results))], "result")
    if rng.random() < 0.5:
        (place / "report.json").unlink()
        home.change(place / rng.choice(FACTS[1:]), rng)
    else:
        home.change(place / "report.json", rng)
    home.called(*rng.choice((("report", "result"), ("view", "--write", "."), ("cache", "show", "result"))))


def exported(home, rng):
    """For other tools, from scores, results and circuits that were changed."""
    kind = rng.choice(("checkpoint", "kv-cache", "hooks", "dataset", "mib", "graphml", "svg"))
    options = ("--model", "m", "--top", str(rng.choice((0, 1, 3, 99)))) if kind in ("checkpoint", "hooks") else ()
    if kind in ("mib", "graphml", "svg"):
        place = home.copied(home.circuit)
        home.change(place, rng)
    elif rng.random() < 0.5:
        place = home.copied(home.results["heads-kept" if options else rng.choice(list(home.results))], "result")
        home.change(rng.choice(sorted(place.rglob("*.json"))), rng)
    else:
        place = home.copied(home.scores)
        home.change(rng.choice(sorted(place.iterdir())), rng)
    unstamped(place.parent if place.is_file() else place, rng)
    home.called("export", kind, place.name, "--out", "there", *options)


READERS = {"exported": (4, exported), "scores": (4, scores), "opened": (4, opened), "report": (4, report)}
