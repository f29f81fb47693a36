"""Studies and training without their pictures, for tests that look at what is computed."""

DRAWN = {
    "kept": ("draw", "draw_scores", "draw_tasks"),
    "head_roles": ("draw_roles",),
    "masked_heads": ("draw_functions", "draw_masked", "draw_steering"),
}
"""What draws the figures of studies, by their folders."""


def leave_out_pictures(monkeypatch):
    """Figures and pages take most of the time of studies as small as those of tests."""
    drawing = [f"{kind}.outputs.{name}" for kind, names in DRAWN.items() for name in ("save_figure", *names)]
    for place in (*drawing, "runner.write_study_report"):
        monkeypatch.setattr(f"headcount.studies.{place}", lambda *arguments, **options: None)
    monkeypatch.setattr("headcount.sparse.outputs._plot", lambda rows: b"")
