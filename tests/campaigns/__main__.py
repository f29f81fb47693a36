"""`make crash`: all campaigns in full. Options: a seed, and a share of the counts.

python tests/campaigns [--seed N] [--share 0.1] [--only kills,damage,races,interrupts,disk,workers] [--start N]

Kills can go on where they were left: the same seed, and --start with the number of the next one.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]
import conftest  # noqa: F401, E402 its settings, before libraries are imported

COUNTS = {"kills": 200, "damage": 1000, "races": 400, "interrupts": 1000, "workers": 10}


def small_model(place):
    import torch
    from transformers import AutoModelForCausalLM

    from families import CONFIGS
    from tokenizers_for_tests import make_tokenizer

    torch.manual_seed(0)
    tokenizer, config = make_tokenizer("digits"), CONFIGS["llama-gqa"]()
    config.vocab_size, config.max_position_embeddings = len(tokenizer), 512
    AutoModelForCausalLM.from_config(config).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return str(place)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--only", default="races,damage,disk,kills,interrupts,workers")
    parser.add_argument("--start", type=int, default=0)
    asked = parser.parse_args()
    wanted = asked.only.split(",")
    print(f"seed {asked.seed}, a share of {asked.share:g} of {COUNTS}", flush=True)
    count = {name: max(round(asked.share * number), 4) for name, number in COUNTS.items()}
    wrong = []
    with tempfile.TemporaryDirectory() as place:
        scratch, text = Path(place), Path(place, "text.txt")
        os.environ["HEADCOUNT_CACHE"] = str(scratch / "cache")
        folder = small_model(scratch / "tiny-llama")
        text.write_text("\n".join(f"We saw Mary, Mary and John in the year {1100 + 7 * i}" for i in range(60)))
        from campaigns import disk, interrupts, kills, races, studies

        if "races" in wanted:
            wrong += races.campaign(-(-count["races"] // 4), 4, scratch, folder)
        if "damage" in wanted:
            wrong += studies.damage(count["damage"] // 2, scratch, folder, asked.seed)
            wrong += studies.damaged_checkpoints(count["damage"] - count["damage"] // 2, scratch, folder, asked.seed)
        if "disk" in wanted:
            wrong += disk.campaign(scratch, folder, str(text))
        if "kills" in wanted:
            left = max(count["kills"] - asked.start, 0)
            wrong += kills.campaign(left, scratch, folder, str(text), asked.seed, first=asked.start)[0]
        if "workers" in wanted:
            from campaigns import workers

            for on in ("local", "ray"):
                wrong += workers.driver_kills(max(count["workers"] // 3, 1), scratch / on, folder, on, asked.seed)
            made = workers.cluster()
            wrong += workers.ray_kills(count["workers"], scratch, folder, made, asked.seed)
            workers.shut_down(made)
        if "interrupts" in wanted:
            wrong += interrupts.campaign(count["interrupts"], asked.seed)[0]
    print(f"{sum(os.times()[:4]):.0f} s of CPU time")
    print("\n".join(wrong) or "Nothing went wrong.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
