"""Models on disk: folders, adapters, sparse models, GGUF files."""

from fuzz.mutations import changed_bytes


def config(home, rng):
    _model_folder(home, rng, home.folder / "model", ["config.json", "generation_config.json"])


def weights(home, rng):
    _model_folder(home, rng, home.folder / "model", ["model.safetensors"])


def tokenizer(home, rng):
    _model_folder(home, rng, home.folder / "model", ["tokenizer.json", "tokenizer_config.json"])


def adapter(home, rng):
    _model_folder(home, rng, home.adapter, ["adapter_config.json", "adapter_config.json", "adapter_model.safetensors"])


def sparse(home, rng):
    files = ["sparse.json", "gates.safetensors", "adapter_config.json", "adapter_model.safetensors"]
    _model_folder(home, rng, home.sparse, files)


def _model_folder(home, rng, sound, files):
    import headcount as hc

    place = home.copied(sound, "copy")
    home.change(place / rng.choice(files), rng)
    if rng.random() < 0.2:
        hc.forecast(str(place))
    model = hc.load(place)
    model.encode("We saw John")
    if rng.random() < 0.2:
        hc.score(model, hc.task(home.place / "own.jsonl", model), "attribution")


def gguf(home, rng):
    """Most often in its header, of which there is much less than of weights."""
    import headcount as hc

    data = home.gguf.read_bytes()
    header = data.index(b"blk.0") if rng.random() < 0.8 else len(data)
    hc.load(home.place / home.written("tiny.gguf", changed_bytes(data[:header], rng) + data[header:]))


READERS = {
    "config": (2, config), "weights": (1, weights), "tokenizer": (1, tokenizer), "adapter": (2, adapter),
    "sparse": (1, sparse), "gguf": (1, gguf),
}  # fmt: skip
