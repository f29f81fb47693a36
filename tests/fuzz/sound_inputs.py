"""Inputs that every reader takes as they are: what a campaign of mutations begins with."""

PAIR = {"clean": "We saw John and", "corrupt": "We saw Mary and", "answer": " Alice", "wrong": [" David"]}
PAIRS = [
    {**PAIR, "clean": f"We saw {name} and", "split": side}
    for name, side in zip(("John", "Tom", "Paul", "Mark"), ("train", "test", "train", "test"), strict=True)
]
IDS = [{"clean": [5, token], "corrupt": [6, token], "answer": 8, "wrong": [9, 10]} for token in (10, 11, 12)]
ITEMS = [
    {"prompt": f"We saw {name}", "target": " and", "choices": [" and", " John"]} for name in ("Tom", "Paul", "Mark")
]
PART = {"subquestion": "Who?", "answer": "Tom", "cognitive_skill": "Retrieval"}
COGQA = [
    {"question": f"Who owns boat {n}?", "answer": "Tom", "generated": [PART, {**PART, "cognitive_skill": "Inference"}]}
    for n in range(12)
]
SETS = {
    "gsm8k": [{"question": f"What is {n} + 1?", "answer": f"It is {n + 1}.\n#### {n + 1}"} for n in range(12)],
    "commonsense-qa": [
        {"question": f"Where is {n}?", "answerKey": "A", "choices": {"label": ["A", "B"], "text": ["here", "there"]}}
        for n in range(12)
    ],
    "bigbench-syntax": [
        {
            "inputs": f"He sees {n}.",
            "targets": ["He saw it."],
            "multiple_choice_targets": ["a", "b"],
            "multiple_choice_scores": [0, 1],
        }
        for n in range(12)
    ],
    "blimp": [{"sentence_good": f"He sees {n}.", "sentence_bad": f"He see {n}."} for n in range(12)],
}
STUDIES = [
    {
        "title": "t",
        "defaults": {"n": 8, "points": 3, "draws": 2, "threshold": 0.9},
        "panel": [
            {
                "task": "ioi",
                "models": ["m"],
                "orders": ["absolute", "chance"],
                "ks": [1, 2],
                "fill": "counterfactual",
                "method": "attribution",
                "steps": 3,
            }
        ],
    },
    {"kind": "edges-kept", "panel": [{"task": "ioi", "models": ["m"], "n": 8, "method": "eap", "readers": "kv-heads"}]},
    {"kind": "attention-edges-kept", "panel": [{"task": "ioi", "models": ["m"], "n": 8, "draws": 1, "updates": 2}]},
    {
        "kind": "head-roles",
        "panel": [
            {
                "task": "syntax",
                "models": ["m"],
                "n": 8,
                "seeds": 2,
                "updates": 2,
                "batch": 2,
                "free_rate": [0.5, 0.2],
                "pull": 0.1,
                "ks": [1, 3],
            }
        ],
        "quick": {"seeds": 1},
    },
    {
        "kind": "masked-heads",
        "panel": [
            {
                "task": "retrieval",
                "models": ["m"],
                "n": 24,
                "ks": [2],
                "alphas": [1.0],
                "comet": "no",
                "epochs": 2,
                "seeds": 1,
                "rate": 0.1,
            }
        ],
    },
]
COMMANDS = [
    ["export", "hooks", "--heads", "a0.h1,a1.h0", "--model", "m", "--out", "there", "--fill", "zero"],
    ["export", "kv-cache", "scores", "--out", "there"],
    ["export", "dataset", "scores", "--out", "there"],
    ["tasks", "check", "own.jsonl", "--model", "m", "--lines", "3", "--fix-space"],
    ["score", "m", "ioi", "--out", "s", "-n", "4", "--method", "attribution", "--fill", "mean", "--seed", "1"],
    ["report", "scores"],
    ["view", "scores", "--write"],
    ["check", "nowhere", "--dtype", "float32", "--device", "cpu"],
    ["pull", "tiny"],
    ["sparsify", "nowhere", "--text", "own.jsonl", "--out", "o", "--steps", "3", "--batch", "2", "--length", "16"],
    ["forecast", "gpt2", "--length", "20", "--memory", "8GB", "--readers", "kv-heads", "--dtype", "float32"],
    ["tasks", "show", "ioi", "--model", "m", "-n", "1", "--seed", "0", "--split", "words"],
    ["questions", "retrieval", "-n", "1", "--seed", "3"],
    ["methods"],
    ["tasks", "list"],
    ["schema", "heads-kept"],
    ["cache", "list"],
    ["cache", "clean", "--older-than", "3", "--yes"],
    ["cache", "show", "abc"],
    ["compare", "scores", "scores", "-k", "2", "--by", "signed"],
    [
        "run",
        "heads-kept",
        "--plan",
        "--model",
        "m",
        "--task",
        "ioi",
        "-n",
        "8",
        "--draws",
        "2",
        "--ks",
        "1,2",
        "--seed",
        "1",
    ],
    ["run", "edges-kept", "--plan", "--model", "m", "--task", "ioi", "-n", "8", "--memory", "1GB", "--steps", "2"],
    [
        "run",
        "head-roles",
        "--plan",
        "--model",
        "m",
        "--task",
        "syntax",
        "-n",
        "8",
        "--seeds",
        "2",
        "--free-rate",
        "0.5,0.1",
    ],
]
RUNS = [
    {"defaults": {"n": 8, "points": 3, "draws": 1}, "panel": [
        {"task": "ioi", "models": ["m"], "orders": ["absolute", "chance"], "ks": [1, 2], "method": "attribution",
         "threshold": 0.5, "fill": "counterfactual"}]},
    {"panel": [
        {"task": "ioi", "models": ["m"], "n": 8, "updates": 2, "batch": 2, "points": 2, "orders": ["absolute"]}]},
    {"kind": "edges-kept", "panel": [
        {"task": "ioi", "models": ["m"], "n": 8, "method": "eap", "points": 3, "draws": 1, "ks": [3]}]},
    {"kind": "attention-edges-kept", "panel": [
        {"task": "ioi", "models": ["m"], "n": 4, "draws": 1, "points": 3, "method": "one-pass"}]},
    {"kind": "head-roles", "panel": [
        {"task": "own.jsonl", "models": ["m"], "n": 8, "seeds": 1, "updates": 2, "batch": 2, "ks": [1, 3]}]},
]  # fmt: skip
"""Each takes about a second."""
LM_EVAL = {
    "task": "own", "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"train": "train.json", "test": "test.json"}},
    "training_split": "train", "test_split": "test", "output_type": "multiple_choice",
    "doc_to_text": "What colour is {{thing}}?", "doc_to_choice": "colours", "doc_to_target": "answer",
    "metric_list": [{"metric": "acc"}], "num_fewshot": 1, "metadata": {"version": 1},
}  # fmt: skip
