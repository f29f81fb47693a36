"""Make a COMET checkpoint of a few kilobytes, and what COMET itself says of some items in Python.

Run by the Python of COMET's own environment: make_tiny_comet.py FOLDER. When the checkpoint is there it says "made",
and waits for a line with the items: dicts of src, mt and ref, whose scores it prints as a line. A second line is a
folder and a command line of comet-score, which it then runs there and ends as, for COMET takes seconds to be imported.
"""

import json
import os
import sys
from pathlib import Path

import torch
import yaml
from comet import load_from_checkpoint
from comet.cli.score import score_command
from comet.models import RegressionMetric
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import EarlyStopping
from pytorch_lightning.utilities.parsing import AttributeDict
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import XLMRobertaConfig, XLMRobertaModel, XLMRobertaTokenizerFast


def make_encoder(folder):
    """A random XLM-R which reads characters."""
    characters = "▁abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,?!'ßäöüé"
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *characters, "<mask>"]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    XLMRobertaTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    config = XLMRobertaConfig(
        vocab_size=len(pieces), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=130, initializer_range=0.5, pad_token_id=1, bos_token_id=0, eos_token_id=2,
        type_vocab_size=1,
    )  # fmt: skip
    XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(folder)


def make_checkpoint(folder):
    """In the layout of the hub: hparams.yaml beside a folder of checkpoints."""
    metric = RegressionMetric(
        pretrained_model=str(folder / "encoder"), hidden_sizes=[24, 12], layer_norm=False, dropout=0.1,
        layer_transformation="sparsemax", pool="avg", validation_data=["one.csv", "two.csv"],
    )  # fmt: skip
    with torch.no_grad():
        for weight in metric.estimator.parameters():
            weight.mul_(2)
    (folder / "hparams.yaml").write_text(yaml.safe_dump(dict(metric.hparams)))
    checkpoint = folder / "checkpoints" / "model.ckpt"
    checkpoint.parent.mkdir()
    trainer = Trainer(accelerator="cpu", logger=False, default_root_dir=folder, callbacks=[EarlyStopping("loss")])
    trainer.strategy.connect(metric)
    trainer.save_checkpoint(checkpoint)
    # The file was written a line above, by this very script; reading all of it is safe.
    saved = torch.load(checkpoint, weights_only=False)
    saved["hyper_parameters"] = AttributeDict(saved["hyper_parameters"])  # more than tensors, as checkpoints may hold
    torch.save(saved, checkpoint)
    return checkpoint


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(0)
    make_encoder(folder / "encoder")
    metric = load_from_checkpoint(make_checkpoint(folder)).half()  # as comet-score runs it
    print("made", flush=True)
    items = json.loads(sys.stdin.readline())
    scores = [metric.predict([item], gpus=0, progress_bar=False).scores[0] for item in items]
    print(json.dumps(scores), flush=True)
    place, *sys.argv = json.loads(sys.stdin.readline())
    os.chdir(place)
    sys.exit(score_command())


if __name__ == "__main__":
    main()
