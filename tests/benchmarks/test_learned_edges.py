"""What LEARNED_EDGES.md says of learned rankings beside the integrated gradient."""

from learned_edges import report


def run(seed, learned, absolute, signed, reached=None, **more):
    asked = {"model": "tiny", "task": "ioi", "n": 60, "share": 1.0, "version": "1.0", "total": 99, "date": "2026-01-02"}
    found = {"learned": learned, "absolute": absolute, "signed": signed}
    ends = {name: [k, k - 1, k + 1, (reached or found)[name]] for name, k in found.items()}
    return {**asked, **ends, "seed": seed, **more}


def test_a_cell_is_won_by_medians_over_seeds():
    rows = [run(1, 30, 70, 40), run(0, 10, 50, 30), run(2, 20, 60, 20, date="2026-01-01")]
    (line,) = report(rows).splitlines()[-1:]
    told = "10 (9 to 11), 30 (29 to 31), 20 (19 to 21) | 50 (49 to 51), 70 (69 to 71), 60 (59 to 61)"
    assert line.startswith(f"| tiny | ioi | 60 | {told} | ")
    assert line.endswith("| 0.33; 0.33 | 0.67; 0.67 | yes | 1.0, 2026-01-01 to 2026-01-02 |")


def test_both_orders_count_and_so_does_what_is_only_reached():
    lost_to_signed = report([run(0, 10, 50, 12)]).splitlines()[-1]
    assert "| 0.20; 0.20 | 0.83; 0.83 | no |" in lost_to_signed
    reached = {"learned": 10, "absolute": 15, "signed": 30}
    assert "| 0.20; 0.67 | 0.33; 0.67 | no |" in report([run(0, 10, 50, 30, reached)]).splitlines()[-1]


def test_settings_stay_apart():
    rows = [run(0, 10, 50, 30), run(0, 10, 50, 30, share=0.1)]
    assert [line.split(" | ")[2] for line in report(rows).splitlines()[-2:]] == ["60, 10% of the edges trained", "60"]
