"""What headcount wrote itself, changed by others: scores, output folders, reports."""

FACTS = ("report.json", "summary.json", "provenance.json", "study.toml", "curves.csv")


def scores(home, rng):
    from headcount.rank.comparison import compare_scores, load_scores

    place = home.copied(home.scores)
    home.change(rng.choice(sorted(place.iterdir())), rng)
    compare_scores([load_scores(home.scores), load_scores(place)])


def opened(home, rng):
    """And what users do first with a run that they have opened."""
    import headcount as hc

    place = home.copied(home.results[rng.choice(list(home.results))], "result")
    inner = [path for path in place.rglob("*") if path.is_file() and path.suffix in (".json", ".safetensors")]
    home.change(rng.choice(inner) if rng.random() < 0.6 else place / rng.choice(FACTS), rng)
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


READERS = {"scores": (4, scores), "opened": (4, opened), "report": (4, report)}
