"""`headcount sparsify` as a user meets it."""

import json
import signal
import time

import pytest

from forked import ended, start

SHORT = ("--lora", 2, "--steps", 6, "--length", 16, "--batch", 2, "--evaluate-sequences", 4, "--device", "cpu")


def test_it_trains_evaluates_and_says_where_the_model_is(headcount, folder, text, tmp_path):
    out = tmp_path / "sparse"
    code, said, progress = headcount("sparsify", folder, "--text", text, "--out", out, *SHORT, "--checkpoint-every", 3)
    assert code == 0
    for words in (
        "held-out sequences, gates hard, of 16 tokens",
        "open edges",
        "at T = 16",
        "keys per query",
        "heads that never open",
        "names",
    ):
        assert words in said
    assert str(out) in said.replace("\n", "")
    assert "step 3 of 6: loss" in progress
    assert {path.name for path in out.iterdir()} == {
        "README.md", "adapter_config.json", "adapter_model.safetensors", "gates.safetensors", "sparse.json",
        "training.csv", "training.png", "report.html", "report.json",
    }  # fmt: skip
    assert json.loads((out / "sparse.json").read_text())["made"]["recipe"]["steps"] == 6
    code, said, _ = headcount("check", out)
    assert code == 0
    assert "All checks passed" in said


def test_the_result_is_tried_on_tasks_beside_the_dense_model(headcount, folder, text, tmp_path):
    own = tmp_path / "own.jsonl"
    lines = [{"prompt": f"We saw Mary in the year 17{year}", "target": " and"} for year in (11, 23, 42, 60)]
    own.write_text("\n".join(map(json.dumps, lines)))
    asked = ("sparsify", folder, "--text", text, *SHORT, "--task", own)
    assert headcount(*asked, "--out", tmp_path / "sparse")[0] == 0
    code, said, _ = headcount(*asked, "--out", tmp_path / "control", "--control")
    assert code == 0
    assert "dense accuracy" in said
    assert "empty rows" not in said
    found = json.loads((tmp_path / "sparse" / "sparse.json").read_text())["made"]["evaluation"]["by_task"]["own"]
    assert set(found) == {"prompts", "accuracy", "dense_accuracy", "keys_a_query", "empty_rows"}
    card = (tmp_path / "sparse" / "README.md").read_text()
    assert "| task | dense accuracy | accuracy | prompts | keys per query | empty rows |" in card
    assert f"| own | {found['dense_accuracy']:.1%} | {found['accuracy']:.1%} | 2 |" in card
    shown = dict(json.loads((tmp_path / "sparse" / "report.json").read_text())["training"]["facts"])
    assert shown["on own"].endswith(f"empty rows {found['empty_rows']:.1%}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task", "nowhere"], "nowhere"),
        (["--steps", 0], "steps must be at least 1 and not above 1,000,000,000; got 0."),
        (["--form", "soft"], "form cannot be 'soft'. Known: log-prob, logit."),
        (["--text", "nowhere.txt"], "There is no text at nowhere.txt."),
        (["--length", 5000], "tokens at most, and sequences of 5000 are wanted"),
        (["--start-from", "nowhere"], "--start-from takes the folder of an adapter that headcount sparsify wrote"),
        (["--device", "abacus"], "The device 'abacus' cannot be used here"),
        (["--lora", 5000], "is above the model's width"),
        (["--out", "~nobody-lives-here/x"], "begins with a user's home that is not known here"),
        (["--start-from", "~nobody-lives-here/x"], "begins with a user's home that is not known here"),
        (["--steps", 10**9], "days here. Give fewer --steps or a smaller --batch, or say that you mean it: --long."),
        (["--batch", 10**6], "The logits of 1,000,000 sequences of"),
    ],
)
def test_what_it_cannot_do_is_one_sentence(headcount, folder, text, tmp_path, options, message, monkeypatch):
    monkeypatch.setattr("headcount.meters.speed.tokens_a_second", lambda model: 1000.0)  # however fast this machine is
    code, _, said = headcount("sparsify", folder, "--text", text, "--out", tmp_path / "out", *SHORT, *options)
    assert code == 2
    assert message in " ".join(said.split())
    assert "Traceback" not in said


def test_text_and_out_must_be_given(headcount, folder):
    code, _, said = headcount("sparsify", folder)
    assert code == 2
    assert "--text" in said


def test_a_real_kill_and_the_same_command_give_what_one_run_gives(folder, text, tmp_path):
    def begin(out):
        settings = (*SHORT[:3], 8, *SHORT[4:], "--checkpoint-every", "4")
        return start("sparsify", folder, "--text", text, "--out", out, *settings, cache=tmp_path / "cache")

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert ended(begin(whole)) == 0
    first = begin(parts)
    while not (parts / "checkpoint.safetensors").exists():
        assert first.is_alive(), "it ended before it could be killed"
        time.sleep(0.01)
    first.kill()
    assert ended(first) == -signal.SIGKILL
    assert ended(begin(parts)) == 0
    for name in ("adapter_model.safetensors", "gates.safetensors", "training.csv", "README.md"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes(), name


def test_pulling_a_bundled_model_fetches_nothing(headcount):
    code, said, _ = headcount("pull", "tiny")
    assert code == 0
    assert "nothing to fetch" in said
