"""What models can do that none of them was post-trained for, side by side.

    python recipes/held_out.py --data DATA --docs

DATA holds `tasks/` with six paradigms of BLiMP, CommonsenseQA and GSM8K. Sentences of BLiMP are compared by their
log-probability, CommonsenseQA by that of the letter behind "Answer:", GSM8K's test split by nats per token of the
worked answers; our own questions are answered, greedily. `recipes/smollm2_text.py` trains on CommonsenseQA's first
questions and on GSM8K's train split; neither stands here. With `--docs` the table goes into docs/models.md.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from smollm2_text import QUESTIONS
from torch.nn.utils.rnn import pad_sequence

import headcount as hc
from headcount.meters.text_metrics import accepted

PAGE = Path(__file__).parent.parent / "docs" / "models.md"
PLACE = re.compile(r"(<!-- held out -->\n).*?(<!-- end -->)", re.DOTALL)
LETTERS = ("a", "b", "c", "d", "e")
TOGETHER = 32


@torch.no_grad()
def said_at(model: hc.Model, texts: Sequence[tuple[str, str]]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The log-probabilities of all tokens at the places of each text's second part, behind the end token and its first
    part; and the tokens that are there."""
    end = model.require_tokenizer().eos_token_id
    for at in range(0, len(texts), TOGETHER):
        some = texts[at : at + TOGETHER]
        before = [[end, *(model.encode(first) if first else [])] for first, _ in some]
        rows = [torch.tensor(head + model.encode(second)) for head, (_, second) in zip(before, some, strict=True)]
        logits = model.logits(pad_sequence(rows, batch_first=True))
        for row, own, head in zip(rows, logits, before, strict=True):
            yield F.log_softmax(own[len(head) - 1 : len(row) - 1].float(), -1), row[len(head) :]


def log_probs(model: hc.Model, texts: Sequence[tuple[str, str]]) -> list[torch.Tensor]:
    """Of the tokens of each text's second part."""
    return [said.gather(1, tokens[:, None])[:, 0] for said, tokens in said_at(model, texts)]


def blimp(model: hc.Model, folder: Path, count: int) -> dict[str, float]:
    """How often the good sentence is the likelier one, by paradigm."""
    found = {}
    for file in sorted(folder.glob("*.jsonl")):
        pairs = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[:count]]
        both = [("", pair[side]) for pair in pairs for side in ("sentence_good", "sentence_bad")]
        sums = torch.stack([each.sum() for each in log_probs(model, both)]).view(-1, 2)
        found[file.stem] = float((sums[:, 0] > sums[:, 1]).double().mean())
    return found


def commonsense(model: hc.Model, file: Path, count: int) -> float:
    """How often the right letter is the likeliest of the five."""
    asked = json.loads(file.read_text(encoding="utf-8"))[QUESTIONS : QUESTIONS + count]
    letters = [model.encode(f" {letter}")[0] for letter in LETTERS]
    texts = [(f"{question['input']}\nAnswer:", " a") for question in asked]
    chosen = [LETTERS[int(said[0, letters].argmax())] for said, _ in said_at(model, texts)]
    return sum(one == question["output"] for one, question in zip(chosen, asked, strict=True)) / len(asked)


def gsm8k(model: hc.Model, file: Path, count: int) -> float:
    """Nats per token of the worked answers."""
    problems = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[:count]]
    texts = [(f"Question: {problem['question']}\nAnswer:", f" {problem['answer']}") for problem in problems]
    return float(-torch.cat(log_probs(model, texts)).mean())


def own_questions(model: hc.Model) -> float:
    """How often our own questions are answered right, those of the test templates."""
    asked = hc.questions().test
    said = hc.ask(model, asked).texts[0]
    return float(accepted(said, said, asked).mean())


def column(model: hc.Model, data: Path, count: int) -> dict[str, str]:
    """What stands below a model's name."""
    by_paradigm = blimp(model, data / "tasks" / "blimp", count)
    found = {f"BLiMP, {name.replace('_', ' ')}": f"{share:.1%}" for name, share in by_paradigm.items()}
    found["**BLiMP, mean**"] = f"**{sum(by_paradigm.values()) / len(by_paradigm):.1%}**"
    found["CommonsenseQA"] = f"{commonsense(model, data / 'tasks' / 'commonsense-qa.json', count):.1%}"
    found["GSM8K, nats per token"] = f"{gsm8k(model, data / 'tasks' / 'gsm8k-test.jsonl', count):.3f}"
    return found | {"our own questions": f"{own_questions(model):.1%}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=["smollm2", "smollm2-control", "smollm2-sparse"])
    parser.add_argument("--count", type=int, default=300, help="pairs of a paradigm, questions and problems")
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    columns = {name: column(hc.load(name), given.data, given.count) for name in given.models}
    rows = [["", *columns], ["---"] * (1 + len(columns))]
    rows += [[what, *(each[what] for each in columns.values())] for what in columns[given.models[0]]]
    text = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    print(text)
    if given.docs:
        PAGE.write_text(PLACE.sub(lambda match: match[1] + text + match[2], PAGE.read_text()))


if __name__ == "__main__":
    main()
