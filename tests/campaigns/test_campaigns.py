"""A sample of every campaign; `make crash` runs them in full. (Interrupts: `tests/models/test_changes.py`.)"""

from campaigns import kills, races, studies

KILLS, LOADS, DAMAGES = 12, 3, 11


def test_kills_at_every_kind_of_moment_end_with_the_bytes_of_an_undisturbed_run(folder, text, tmp_path):
    wrong, struck = kills.campaign(
        KILLS, tmp_path, folder, text, seed=3, only=("score", "adapter", "edges", "report"), timed=0.0
    )
    assert wrong == []
    assert struck == KILLS


def test_processes_that_load_a_model_for_the_first_time_at_once_all_get_it(folder, tmp_path):
    assert races.campaign(LOADS, 4, tmp_path, folder) == []


def test_damaged_steps_and_checkpoints_are_noticed_and_every_result_is_right(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADCOUNT_CACHE", str(tmp_path))
    assert studies.damage(DAMAGES, tmp_path, folder, seed=5) == []
    assert studies.damaged_checkpoints(2 * DAMAGES, tmp_path, folder, seed=5) == []
