"""What SEEDS.md says of runs with other seeds."""

from seeds import report


def run(seed, needed, low, high, **more):
    asked = {"model": "tiny", "task": "ioi", "quick": True, "version": "1.0", "total": 32, "date": "2026-01-02"}
    return {**asked, "seed": seed, "needed": needed, "needed_low": low, "needed_high": high, **more}


def test_spread_and_how_often_an_interval_holds_the_median_of_the_others():
    rows = [run(2, 6, 5, 7), run(0, 4, 3, 5), run(1, 5, 4, 6, date="2026-01-01")]  # medians of the others: 4.5, 5.5, 5
    (line,) = report(rows).splitlines()[-1:]
    told = "4 (3 to 5), 5 (4 to 6), 6 (5 to 7); of 32"
    assert line == f"| tiny | ioi | quick | {told} | 0.20 | 1 of 3 | 1.0, 2026-01-01 to 2026-01-02 |"


def test_two_runs_say_nothing_of_a_spread_and_settings_and_versions_stay_apart():
    rows = [run(0, 4, 3, 5), run(1, 5, 4, 6), run(0, 9, 8, 9, quick=False), run(0, 7, 6, 8, version="1.1")]
    lines = report(rows).splitlines()[-3:]
    assert [line.split(" | ")[2] for line in lines] == ["whole", "quick", "quick"]
    assert all("| – | – |" in line for line in lines)
