"""Text that a model writes itself, for post-training that should leave what it can do alone.

    python recipes/own_text.py --model smollm2 --documents 1500 --out own.jsonl

Books and encyclopedias rarely ask for what a chat model does all day. So the model is asked, in many ways, for
dialogues, stories with several people, code with documented parameters, lists, dates, letters, sums, questions and
their answers, half of the time as a chat and half as plain text that it goes on with; what it samples becomes training
text. People, parameters and frames here are not those of headcount's own tasks.
"""

import argparse
import json
import random
from pathlib import Path

import torch

import headcount as hc
from headcount.core.progress import progress_bar
from headcount.models.attention import grouped_attention

PEOPLE = """
Aisha Akira Amara Anders Anjali Bianca Boris Camila Chiara Dmitri Elena Elif Enzo Farid Fatima Freya Giorgio Hana Hugo
Ibrahim Ingrid Ivan Jamal Javier Jorge Kofi Lars Leila Lena Liam Lola Luca Luis Magnus Mateo Mei Mia Mila Mohamed Nadia
Nina Noah Nora Olga Omar Paolo Pedro Priya Rafael Ravi Rosa Sakura Sofia Sven Tara Tomas Uma Vera Viktor Yara Yuki Zara
""".split()
TOPICS = (
    """
gardening|the first day at work|a lost dog|a bicycle trip|cooking for a wedding|an old map|moving house|the school play
a broken boiler|learning the violin|a football match|a birthday surprise|the night train|a job interview|space travel
the new neighbours|a long winter|saving money|an unexpected inheritance|the village fair|a power cut|fixing a boat
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
THINGS = "stack queue matrix invoice calendar parser timer account triangle inventory playlist menu logger".split()
VERBS = (
    "build check clean close copy draw fetch join list merge open parse print rank read send sort split store".split()
)
PARAMETERS = """
address altitude author balance barcode budget captain chapters city colour country currency days deadline
destination dose duration email fabric fuel genre guest hobby hours journey kind margin member mileage minutes month
nickname note notebook origin passenger phone pilot pixels postcode priority quantity rating receipt receiver recipe
refund rows salary season sender shelf station street subject supplier surname tariff teacher ticket vendor voltage
warranty year
""".split()
ERAS = (
    """
the printing press|the Roman roads|railways in India|the Silk Road|polar exploration|the Ottoman Empire|early radio
the spice trade|the first photographs|canal building|the Black Death|the Mongol conquests|vaccination|steam ships
""".replace("\n", "|")
    .strip("|")
    .split("|")
)

ASKED = (
    "Write a dialogue between {a} and {b} about {topic}.",
    "Write a short story about {a}, {b} and {c}. It has to do with {topic}.",
    "Write a Python function for a {thing} and explain how it works.",
    "Write a Python class for a {thing} with several methods and comments.",
    "Give me a timeline of {era} with the years.",
    "Tell me the history of {era}: when did it begin, and when did it end?",
    "Write a letter from {a} to {b} about {topic}.",
    "List ten things to remember about {topic}.",
    "{a} has {m} apples and {b} has {n}. Explain step by step how many they have together, and who has more.",
    "Summarise this meeting: {a}, {b} and {c} talked about {topic}, and they did not agree.",
    "Write an e-mail in which {a} introduces {b} to {c}.",
    "Describe a scene in which {a} thanks {b} for help with {topic}.",
    "Explain {topic} to a child, with an example.",
    "Write a news report about {topic}, with quotes from {a} and {b}.",
    "Write a Python function with these parameters: {p}, {q}, {r}, {s}. Document each of them in the docstring.",
    "Document this method:\n\ndef {verb}_{thing}(self, {p}, {q}, {r}):",
    "Write a Python class for a {thing} with the attributes {p}, {q} and {r}, and document them.",
    "Is {m} larger than {n}? By how much?",
    "What is {m} times {n}? And {m} plus {n}?",
    "{a} gave a book to {b}, who gave it to {c}. Who has the book now? Then go on with the story.",
    "Ask me five questions about {era}, with their answers.",
    "Which of these is not like the others: a {thing}, {m}, {topic}? Explain.",
    "Rewrite in the past tense: {a} and {b} talk about {topic}, and {c} listens to them.",
    "When did {era} begin: before or after the year 1{digit}00? Tell me more.",
)
BEGUN = (
    "{a}: Did you hear about {topic}?\n{b}:",
    "It had all begun with {topic}. {a} looked at {b} and said,",
    "{a} and {b} had known each other since school. One evening",
    "def make_{thing}(",
    "class {thing_title}:\n    def __init__(self,",
    "import math\n\n\ndef",
    "A short history of {era}\n\nIn the year 1{digit}",
    "Chapter 1\n\n{a} had never cared for {topic}, but",
    "Minutes of the meeting\n\nPresent: {a}, {b}, {c}\n\n1.",
    "Dear {a},\n\nThank you for your letter about {topic}. {b}",
    "Shopping list:\n-",
    "Question: {a} had {m} coins and gave {n} of them to {b}. How many were left?\nAnswer:",
    "The family tree: {a} is the mother of {b}, and {b} is the",
    "# {topic_title}\n\n## Before you start\n\n",
    "{era_title} lasted for",
    "My name is {a}. My best friend is called {b}, and",
    'def {verb}_{thing}(self, {p}, {q}, {r}):\n    """{verb_title} the {thing}.\n\n    Args:\n        {p}:',
    'def {verb}({p}, {q}, {r}, {s}):\n    """{verb_title} things.\n\n    Parameters\n    ----------\n    {p} :',
    'def {verb}({p}, {q}, {r}={m}):\n    """\n    {verb_title} what is asked for.\n\n    :param {p}:',
    'class {thing_title}:\n    """A {thing}.\n\n    Attributes:\n        {p}:',
    "Quiz\n\nQuestion 1: What do you know about {era}?\nAnswer:",
    "Question: Where would you find a {thing}?\nAnswer Choices: (A)",
    "{a}, {b} and {c} were sitting at the table. {a} asked {b} about {topic}, and",
    "{m} + {n} =",
    "| name | {p} | {q} |\n|---|---|---|\n| {a} |",
    "{a} was born in 1{digit}",
    'The teacher asked: "Who knows something about {topic}?" {a} raised a hand.',
)


def opening(tokenizer, rng: random.Random) -> str:
    a, b, c = rng.sample(PEOPLE, 3)
    topic, thing, era = rng.choice(TOPICS), rng.choice(THINGS), rng.choice(ERAS)
    verb, (p, q, r, s) = rng.choice(VERBS), rng.sample(PARAMETERS, 4)
    m, n = sorted(rng.sample(range(2, 60), 2), reverse=True)
    words = {"topic": topic, "thing": thing, "era": era, "verb": verb}
    words |= {f"{name}_title": word[0].upper() + word[1:] for name, word in words.items()}
    words |= {"a": a, "b": b, "c": c, "p": p, "q": q, "r": r, "s": s}
    numbers = {"m": m, "n": n, "digit": rng.choice("456789")}
    if rng.random() < 0.5:
        return rng.choice(BEGUN).format(**words, **numbers)
    asked = [{"role": "user", "content": rng.choice(ASKED).format(**words, **numbers)}]
    return tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)


@torch.no_grad()
def write(model: hc.Model, documents: int, length: int, batch: int, seed: int, out: Path) -> None:
    """Sample, and append finished batches to the file, so that a run that ends early leaves what it has."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    tokenizer = model.tokenizer
    tokenizer.padding_side = "left"
    end = tokenizer.eos_token_id
    with out.open("a", encoding="utf-8") as file, grouped_attention(model), progress_bar(documents) as bar:
        for _ in range(0, documents, batch):
            openings = [opening(tokenizer, rng) for _ in range(batch)]
            asked = tokenizer(openings, return_tensors="pt", padding=True)
            ids = model.hf.generate(
                **asked, max_new_tokens=length, do_sample=True, temperature=0.8, top_k=50, pad_token_id=end
            )
            for start, row in zip(openings, ids[:, asked["input_ids"].shape[1] :].tolist(), strict=True):
                written = row[: row.index(end)] if end in row else row
                file.write(json.dumps({"text": start + tokenizer.decode(written)}) + "\n")
            file.flush()
            bar.advance(batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--documents", type=int, default=1500)
    parser.add_argument("--length", type=int, default=128, help="tokens a document, at most")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--dtype", default="float32", help="bfloat16 is several times as fast where the processor has AMX"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    write(
        hc.load(given.model, dtype=getattr(torch, given.dtype)),
        given.documents,
        given.length,
        given.batch,
        given.seed,
        given.out,
    )


if __name__ == "__main__":
    main()
