"""From text and a dense model to a sparse folder: the objective, the loop, what survives a kill, what is refused."""

import csv
import json
import math
import os
import random
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import headcount as hc
from campaigns.damage import cut_off, flip_a_bit, overwrite_some_bytes
from headcount.models.gates import gates_of
from headcount.sparse import training
from headcount.sparse.objective import DAMPING, Bound, Losses, bounds_of, regulariser
from headcount.sparse.text import read_text
from headcount.sparse.trainee import make_trainee, start_sinks
from headcount.sparse.training import schedule
from short_runs import QUICK, changed, run


class TestObjective:
    @pytest.mark.parametrize("together", [2**19, 25])  # all tokens at once, or two
    @pytest.mark.parametrize("kl", [0.0, 0.3, 1.0])
    def test_what_is_lost_and_its_gradient(self, kl, together, monkeypatch):
        monkeypatch.setattr("headcount.sparse.objective.IN_CACHE", together)
        torch.manual_seed(0)
        ids = torch.randint(0, 11, (3, 5))
        logits, dense = torch.randn(3, 5, 11, requires_grad=True), torch.randn(3, 5, 11)
        losses = Losses.of(logits, dense, ids, kl)
        log_q, log_p = (F.log_softmax(x[:, :-1].flatten(0, 1), -1) for x in (logits, dense))
        loss, dense_loss = (F.nll_loss(x, ids[:, 1:].flatten(), reduction="none") for x in (log_q, log_p))
        wanted = (1 - kl) * (loss - dense_loss) + kl * (log_p.exp() * (log_p - log_q)).sum(-1)
        torch.testing.assert_close(losses.lost.flatten(), wanted)
        torch.testing.assert_close(losses.loss, loss.mean())
        torch.testing.assert_close(losses.dense, dense_loss.mean())
        weight = torch.randn(12)
        found, by_autograd = (
            torch.autograd.grad((x * weight).sum(), logits)[0] for x in (losses.lost.flatten(), wanted)
        )
        torch.testing.assert_close(found, by_autograd)

    def test_the_tail_is_the_mean_of_the_tokens_that_lose_most(self):
        losses = Losses(
            torch.zeros(()), torch.zeros(()), torch.tensor([0.1, 3.0, -1.0, 0.2, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        )
        assert float(losses.tail(0.2)) == pytest.approx(2.5)
        assert float(losses.tail(0.01)) == pytest.approx(3.0)  # at least one token

    def test_a_multiplier_grows_while_its_bound_is_broken_and_shrinks_while_there_is_slack(self):
        bound = Bound("mean", tolerance=0.1, speed=0.1, smoothing=0.9, log_multiplier=0.0, scale=0.1)
        grown = [(bound.update(0.3), bound.multiplier)[1] for _ in range(20)]
        assert grown == sorted(grown)
        # A violation counts as the tolerance at most; what has added up, and what answers at once.
        assert grown[-1] == pytest.approx(math.exp(0.1 * 20 + DAMPING), rel=1e-6)
        for _ in range(60):
            bound.update(0.0)
        assert bound.multiplier < 0.2

    def test_one_bound_or_two(self):
        assert [bound.name for bound in bounds_of(changed(tail=0.0), [])] == ["mean"]
        assert [bound.name for bound in bounds_of(QUICK, [])] == ["mean", "tail"]

    def test_every_source_has_a_bound_of_its_own(self):
        recipe = changed(by_source=True, tail=0.0)
        assert [bound.name for bound in bounds_of(recipe, ["books", "code"])] == ["source books", "source code"]
        lost = torch.tensor([[1.0, 3.0], [0.0, 0.0], [4.0, 6.0]])
        losses = Losses(torch.zeros(()), torch.zeros(()), lost)
        found = losses.bounded(recipe, torch.tensor([2, 0, 2]), sources=3)
        assert [(mean.item(), share) for mean, share in found] == [(0.0, 1 / 3), (0.0, 0.0), (3.5, 2 / 3)]
        # With the same multiplier everywhere they add up to the bound on the mean.
        assert float(sum(mean * share for mean, share in found)) == pytest.approx(float(lost.mean()))

    def test_the_regulariser_is_the_share_or_its_logarithm(self):
        shares = [torch.tensor([0.1, 0.1]), torch.tensor([0.2, 0.4])]
        assert float(regulariser(shares, changed(regulariser="linear"))) == pytest.approx(0.2)
        assert float(regulariser(shares, QUICK)) == pytest.approx(math.log(0.2))

    def test_the_regulariser_by_heads_prefers_one_shut_head_to_two_thinned_out(self):
        recipe = changed(regulariser="log-heads")
        one_shut, both_thinned = torch.tensor([0.2, 0.0]), torch.tensor([0.1, 0.1])
        assert regulariser([one_shut], recipe) < regulariser([both_thinned], recipe)
        logs = [math.log(share + 1e-4) for share in (0.1, 0.3)]
        assert float(regulariser([torch.tensor([0.1, 0.3])], recipe)) == pytest.approx(sum(logs) / 2)

    def test_the_rate_goes_up_stays_and_goes_down(self):
        recipe = changed(steps=100, warmup=10, cooldown=0.2)
        factors = [schedule(step, recipe) for step in range(100)]
        assert factors[0] == 0.1
        assert factors[9:81] == [1.0] * 72
        assert factors[-1] == pytest.approx(0.05)


class TestNothingToAttendTo:
    RECIPE = changed(sinks=True, row_cost=2.0, by_source=True, tail=0.0, pieces=(8, 4))

    def test_a_run_with_all_of_it_resumes_and_loads(self, folder, text, tmp_path, monkeypatch):
        whole, halved = tmp_path / "whole", tmp_path / "halved"
        found = run(folder, text, whole, self.RECIPE)
        with monkeypatch.context() as patch:
            patch.setattr(training, "_step", stopping_after(4, training._step))
            with pytest.raises(KeyboardInterrupt):
                run(folder, text, halved, self.RECIPE)
        run(folder, text, halved, self.RECIPE)
        written = (whole / "training.csv").read_text()
        assert (halved / "training.csv").read_text() == written
        assert {"empty_rows", "source names_lost", "source names_multiplier"} <= set(written.split("\n")[0].split(","))
        model = hc.load(whole, base=folder)
        sinks = torch.stack([layer.sink for layer in gates_of(model)])
        assert sinks.shape == (model.n_layers, model.n_heads)
        assert len(sinks.unique()) == sinks.numel()  # each began below its own head's logits, and moved
        assert 0 <= found.empty_rows <= 1

    def test_a_sink_begins_so_low_that_nothing_changes(self, folder, text):
        model, plain = hc.load(folder), hc.load(folder)
        ids = read_text(model, [text], self.RECIPE).train[:2]
        make_trainee(plain, self.RECIPE.changed(sinks=False))
        start_sinks(make_trainee(model, self.RECIPE), ids)
        with torch.no_grad():
            torch.testing.assert_close(model.logits(ids), plain.logits(ids), atol=1e-3, rtol=0)

    def test_a_run_may_add_sinks_to_heads_that_had_none_and_takes_none_away(self, folder, text, tmp_path):
        run(folder, text, tmp_path / "first")
        sinks = changed(sinks=True)
        run(folder, text, tmp_path / "second", sinks.changed(steps=1, gate_lr=0.0), start_from=tmp_path / "first")
        first, second = (load_file(tmp_path / name / "gates.safetensors") for name in ("first", "second"))
        torch.testing.assert_close(second["offset"], first["offset"])
        assert second["sink"].isfinite().all()
        with pytest.raises(hc.HeadcountError, match="have sinks. Give --sinks to go on with them"):
            run(folder, text, tmp_path / "third", changed(), start_from=tmp_path / "second")


def csv_rows(place):
    with place.open() as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def stopping_after(steps, step):
    """A step that is interrupted when so many have been done."""
    done = []

    def stopped(*args):
        if len(done) == steps:
            raise KeyboardInterrupt
        done.append(1)
        return step(*args)

    return stopped


class TestText:
    def test_documents_are_packed_with_an_end_between_them_and_the_last_are_held_out(self, folder, tmp_path):
        place = tmp_path / "own.jsonl"
        place.write_text("".join(json.dumps({"text": f"We saw Mary and John {i}"}) + "\n" for i in range(40)))
        model = hc.load(folder)
        found = read_text(model, [str(place)], changed(length=8, held_out=0.25))
        ids = torch.cat([found.train, found.held_out["own"]]).flatten().tolist()
        first = model.encode("We saw Mary and John 0")
        assert ids[: len(first) + 1] == [*first, model.tokenizer.eos_token_id]
        assert len(found.held_out["own"]) == round(0.25 * (len(found.train) + len(found.held_out["own"])))

    def test_a_batch_is_a_function_of_seed_and_step_and_an_epoch_sees_all(self, folder, text):
        model = hc.load(folder)
        recipe = changed(batch=1)
        found = read_text(model, [text], recipe)
        total = len(found.train)
        epoch = torch.cat([found.batch(recipe, step)[0] for step in range(total)])
        assert sorted(epoch.tolist()) == sorted(found.train.tolist())
        assert torch.equal(found.batch(recipe, 3)[0], found.batch(recipe, 3)[0])
        again = torch.cat([found.batch(recipe, step)[0] for step in range(total, 2 * total)])
        assert not torch.equal(again, epoch)

    def test_steps_take_turns_between_whole_sequences_and_pieces_of_them(self, folder, text):
        found = read_text(hc.load(folder), [text], QUICK)
        recipe = changed(pieces=(8, 4))
        for step, length in enumerate([16, 8, 4, 16]):
            ids, source = found.batch(recipe, step)
            whole, _ = found.batch(QUICK, step)
            assert ids.shape == (2 * 16 // length, length)
            assert torch.equal(ids.view_as(whole), whole)
            assert len(source) == len(ids)

    @pytest.mark.parametrize("pieces", [(5,), (16,), (8, 32)])
    def test_pieces_that_do_not_fill_a_sequence_are_refused(self, folder, text, tmp_path, pieces):
        with pytest.raises(hc.HeadcountError, match="Sequences of 16 tokens cannot be cut into pieces of"):
            run(folder, text, tmp_path, changed(pieces=pieces))

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("empty.txt", " \n", "There is no text in .*empty.txt"),
            ("short.txt", "We saw Mary", "two sequences of 16 are the least"),
            ("bad.jsonl", '{"words": 1}\n', 'Line 1 of .* must be a JSON object with a field "text"'),
            ("latin.txt", b"\xff\xfe\xff", "must be UTF-8 text, but byte 0 is none"),
        ],
    )
    def test_text_that_cannot_be_used_is_refused(self, folder, tmp_path, name, content, message):
        place = tmp_path / name
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(hc.HeadcountError, match=message):
            run(folder, str(place), tmp_path / "out")

    def test_a_missing_file_and_a_missing_dataset_are_told_apart(self, folder, tmp_path):
        with pytest.raises(hc.HeadcountError, match="There is no text at ./nowhere.txt"):
            run(folder, "./nowhere.txt", tmp_path / "out")
        with pytest.raises(hc.HeadcountError, match="neither a file nor a folder, and no dataset was found"):
            run(folder, "no-such-dataset", tmp_path / "out")
        (tmp_path / "nothing").mkdir()
        with pytest.raises(hc.HeadcountError, match="holds no .txt, .md or .jsonl"):
            run(folder, str(tmp_path / "nothing"), tmp_path / "out")


class TestLoop:
    @pytest.mark.parametrize("lora", [2, None])
    def test_killed_and_continued_equals_uninterrupted_bit_for_bit(self, folder, text, tmp_path, monkeypatch, lora):
        recipe = changed(lora=lora)
        whole = run(folder, text, tmp_path / "whole", recipe)
        step = training._step

        def killed(*args):
            if args[-1] == 5:
                raise KeyboardInterrupt
            return step(*args)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(training, "_step", killed)
            run(folder, text, tmp_path / "parts", recipe)
        assert (tmp_path / "parts" / "checkpoint.safetensors").is_file()
        assert not (tmp_path / "parts" / "sparse.json").exists()
        steps = []
        with monkeypatch.context() as patch:
            patch.setattr(training, "_step", lambda *args: (steps.append(args[-1]), step(*args))[1])
            assert run(folder, text, tmp_path / "parts", recipe) == whole
        assert steps == [4, 5]  # from the last checkpoint, not from the start
        weights = "adapter_model.safetensors" if lora else "model.safetensors"
        for name in (weights, "gates.safetensors", "training.csv"):
            assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
        assert not (tmp_path / "parts" / "checkpoint.safetensors").exists()

    def test_a_damaged_checkpoint_is_said_and_a_kill_in_the_last_write_ends_well_too(
        self, folder, text, tmp_path, monkeypatch, capsys
    ):
        whole, parts = tmp_path / "whole", tmp_path / "parts"
        recipe = changed(steps=3, checkpoint_every=25)
        run(folder, text, whole, recipe)
        replace, moved = os.replace, []

        def killed(source, target):
            """Before the third file of the result is put in its place."""
            if Path(source).parent.name.startswith(".unfinished") and Path(target).parent == parts:
                moved.append(Path(target).name)
                if len(moved) == 3:
                    raise KeyboardInterrupt
            replace(source, target)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(os, "replace", killed)
            run(folder, text, parts, recipe)
        assert moved[0] == "sparse.json"
        with pytest.raises(hc.HeadcountError, match="was stopped; the same command ends it"):
            hc.load(parts)

        rng, checkpoint = random.Random(0), parts / "checkpoint.safetensors"
        good = checkpoint.read_bytes()
        for hurt in (flip_a_bit, cut_off, overwrite_some_bytes) * 5:
            alone = tmp_path / "alone"
            alone.mkdir(exist_ok=True)
            (alone / checkpoint.name).write_bytes(good)
            hurt(alone, rng)
            empty = training.Training({}, None, [], [])
            assert empty.restore(alone, "key") == 0
            assert "is damaged" in " ".join(capsys.readouterr().err.split())
        checkpoint.write_bytes((alone / checkpoint.name).read_bytes())
        run(folder, text, parts, recipe)
        assert "Training starts over" in " ".join(capsys.readouterr().err.split())
        same = {path.name: path.read_bytes() for path in whole.iterdir()}
        assert {path.name: path.read_bytes() for path in parts.iterdir()} == same

    def test_room_for_checkpoints_is_looked_at_before_the_first_step(self, folder, text, tmp_path, monkeypatch):
        monkeypatch.setattr(training, "_step", lambda *args: 1 / 0)
        monkeypatch.setattr("headcount.sparse.run.CHECKPOINTS", 2**40)
        with pytest.raises(hc.HeadcountError, match="MB left, and this may need"):
            run(folder, text, tmp_path)

    def test_another_run_does_not_go_on_from_this_ones_checkpoint(self, folder, text, tmp_path, monkeypatch):
        monkeypatch.setattr(training, "schedule", lambda step, recipe: 1.0 if step < 3 else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(folder, text, tmp_path)
        monkeypatch.undo()
        with pytest.raises(hc.HeadcountError, match="checkpoint of another run"):
            run(folder, text, tmp_path, changed(lr=1e-4))

    def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_checkpoint(self, folder, text, tmp_path, monkeypatch):
        step = training._step

        def broken(trainee, *args):
            if args[-1] == 3:
                with torch.no_grad():
                    next(iter(trainee.parameters.values())).fill_(float("nan"))
            return step(trainee, *args)

        monkeypatch.setattr(training, "_step", broken)
        with pytest.raises(
            hc.HeadcountError, match=r"The loss of step 4 is not finite. The checkpoint of step 2 is kept"
        ):
            run(folder, text, tmp_path)
        monkeypatch.undo()
        again = run(folder, text, tmp_path)  # from the last good one
        assert math.isfinite(again.loss)

    def test_where_there_is_no_checkpoint_yet_none_is_promised(self, folder, text, tmp_path, monkeypatch):
        monkeypatch.setattr(training, "schedule", lambda step, recipe: 1e33)
        with pytest.raises(hc.HeadcountError, match="is not finite. There is no checkpoint yet"):
            run(folder, text, tmp_path, changed(lora=None, checkpoint_every=100))

    def test_edges_are_shut_and_the_log_says_so(self, folder, text, tmp_path):
        recipe = changed(steps=30, start=-3.0, lora=None, checkpoint_every=10)
        found = run(folder, text, tmp_path, recipe, plots=True)
        share = [row["open_share"] for row in csv_rows(tmp_path / "training.csv")]
        assert len(share) == 30
        assert share[-1] < 0.7 * share[0]
        assert found.open_share < share[0]
        assert 0 <= found.empty_rows < 1
        assert found.keys_a_query == pytest.approx(found.open_share * 17 / 2)  # (T + 1) / 2 keys per query at T = 16
        assert (tmp_path / "training.png").stat().st_size > 10_000

    def test_pieces_have_the_share_of_whole_sequences_with_as_many_keys_per_query(self, folder, text, tmp_path):
        # With gates that are sure to open every query of a piece sees all (4 + 1) / 2 of its keys; of whole sequences
        # there would be (16 + 1) / 2.
        run(folder, text, tmp_path, changed(start=-30.0, pieces=(4,), steps=2, gate_lr=0.0))
        whole, piece = csv_rows(tmp_path / "training.csv")
        assert whole["open_share"] == pytest.approx(1)
        assert piece["keys_a_query"] == pytest.approx(5 / 2)
        assert piece["open_share"] == pytest.approx(5 / 17, abs=1e-6)  # as many digits as the log has

    def test_products_in_bfloat16_train_weights_in_full_precision(self, folder, text, tmp_path):
        found = run(folder, text, tmp_path / "half", changed(products="bfloat16", lora=None))
        exact = run(folder, text, tmp_path / "full", changed(products="float32", lora=None))
        assert found.loss != exact.loss
        assert found.loss == pytest.approx(exact.loss, rel=0.02)
        assert hc.load(tmp_path / "half").hf.dtype == torch.float32

    def test_a_dense_control_trains_the_same_weights_with_no_gates(self, folder, text, tmp_path):
        found = run(folder, text, tmp_path, changed(control=True, kl=0.0, steps=12, lr=1e-2))
        assert found.loss < found.dense_loss
        assert found.open_share == 1
        assert "keys_a_query" not in (tmp_path / "training.csv").read_text()
        assert "gates" not in found.in_words
        loaded = hc.load(tmp_path)
        assert gates_of(loaded) == ()
        assert loaded.hf.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps must be at least 1 and not above 1,000,000,000; got 0"),
        ({"kl": 1.5}, "kl must be at least 0 and not above 1; got 1.5"),
        ({"form": "soft"}, "form cannot be 'soft'. Known: log-prob, logit"),
        ({"held_out": 0.0}, "held_out must be above 0 and below 1; got 0.0"),
        ({"lora": 0}, "lora must be at least 1; got 0"),
        ({"steps": 2.5}, "steps must be a whole number; got 2.5"),
        ({"lr": -1.0}, "lr must be above 0; got -1.0"),
    ],
)
def test_settings_out_of_range_are_refused_before_anything_runs(folder, text, tmp_path, settings, message):
    with pytest.raises(hc.HeadcountError, match=message):
        run(folder, text, tmp_path, changed(**settings))
