"""Results of every kind of study with numbers made up from a seed, for tests of what is written and shown: no model
runs, no figure is saved, and one is drawn only where names are strange."""

from dataclasses import replace

import numpy as np

import headcount as hc
from headcount.models.graph import Graph
from headcount.rank.probes.probe import Probe
from headcount.studies.head_roles import outputs as roles_outputs
from headcount.studies.head_roles.steps import RolesCell
from headcount.studies.kept import outputs as kept_outputs
from headcount.studies.kept.steps import KeptCell
from headcount.studies.masked_heads import outputs as masked_outputs
from headcount.studies.masked_heads.steps import MaskedCell
from headcount.studies.outputs import write_common
from headcount.studies.report import write_study_report
from headcount.studies.study import read_study
from headcount.sweeps.masking import MASK_ORDERS, MaskedAnswers, masked_curve, masked_heads
from headcount.sweeps.orders import ranked_places
from headcount.tasks.questions import Question
from headcount.tasks.texts import PromptTexts
from pictures import DRAWN

MARKUP = "<img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'</script>&amp;"
LAYERS, HEADS = 4, 8
ORIGIN = {"model": {"name": "m", "class": "Made", "sha256": "0", "dtype": "float32"}, "task": {"sha256": "x"}}


class ByHand:
    """Makes cells of studies; `shape` is layers and heads, `mark` what stands in every text."""

    def __init__(self, shape=(LAYERS, HEADS), prompts=12, mark="", seed=0, repeats=1):
        self.shape, self.count, self.mark, self.repeats = shape, prompts, mark, repeats
        self.rng = np.random.default_rng(seed)

    def named(self, text):
        return f"{text} {self.mark}".strip()

    def texts(self, tokens=6):
        words = [[f"w{p}", *(f" t{t}" for t in range(tokens - 1))] for p in range(self.count)]
        clean = [self.named("".join(row)) for row in words]
        said = [[(self.named(f" yes{p}"), 0.75), (" no", 0.2)] for p in range(self.count)]
        answers = [self.named(f" yes{p}" if p % 2 == 0 else " else") for p in range(self.count)]
        other = [f"other {text}" for text in clean]
        tokens = [[self.named(token) for token in row] for row in words]
        return PromptTexts(clean, other, answers, [self.named(" wrong")] * self.count, tokens, said, said)

    def scores(self, model, task, method="attribution-ig"):
        by_pair = self.rng.normal(size=(6, *self.shape)) * self.rng.gamma(1.0, size=self.shape)
        return hc.HeadScores(model, task, method, "logit_diff", by_pair, provenance=ORIGIN)

    def edge_scores(self, model, task):
        graph = Graph(*self.shape, self.shape[1])
        values = np.where(graph.real, self.rng.normal(size=graph.real.shape), 0.0)
        return hc.EdgeScores(model, task, "eap-ig", "logit_diff", graph, 64, values, provenance=ORIGIN)

    def curve(self, model, task, order, ks, total, ranking=(), units="heads", fill="counterfactual", **more):
        """Rises from about 0 to about 4, in a way of its own for every prompt."""
        draws = 3 if order.startswith("chance") else 1
        way = (np.array(ks) / total) ** (1.5 if draws > 1 else self.rng.uniform(0.1, 0.4))
        noise = self.rng.normal(scale=0.4, size=(draws, len(ks), self.count))
        noise[:, [0, -1]] = noise[:1, [0, -1]]  # none and all are the same in every draw
        logits = 4 * way[None, :, None] + noise
        values = {"logit_diff": logits, "accuracy": (logits > 1).astype(float)}
        method = "chance" if draws > 1 else more.pop("method", "attribution-ig")
        more |= {} if draws > 1 else self._says(logits[0])
        return hc.Curve(
            model, task, self.named(task.upper()), units, method, order, "keep", fill, "logit_diff", tuple(ks), total,
            tuple(ranking), values, provenance=ORIGIN, **more,
        )  # fmt: skip

    def _says(self, logits):
        """The answer where a prompt's own number is above 1, else something that every prompt has for itself."""
        own = np.arange(self.count)[None].repeat(len(logits), 0)
        words = {str(p): self.named(f" yes{p}") for p in range(self.count)}
        words |= {str(100 + p): self.named(f" lost{p}") for p in range(self.count)}
        chances = self.rng.random(logits.shape)
        return {"said": {"said": np.where(logits > 1, own, 100.0 + own), "said_chance": chances}, "words": words}

    def heads_kept(self, panel, model, task):
        method = panel.scorer if panel and panel.scorer not in ("learned", "one-pass") else "attribution-ig"
        scores, total = self.scores(model, task, method), self.shape[0] * self.shape[1]
        ks = sorted({0, 1, 2, 3, 4, 6, 9, 12, *np.linspace(0, total, 10).astype(int).tolist()})
        orders, chance = ("absolute", "signed"), not panel or "chance" in panel.orders
        curves = [self.curve(model, task, o, ks, total, scores.top(total, o), method=method) for o in orders]
        curves += [self.curve(model, task, "chance", ks, total)] if chance else []
        asked = panel.controls if panel else ()
        controls = {kind: self.curve(model, task, "absolute", ks, total) for kind in asked}
        again = [
            self.curve(model, task, o, [0, 5 + number, *ks[5:]], total, scores.top(total, o), method=method)
            for number in range(self.repeats - 1)
            for o in orders
        ]
        return KeptCell(panel, scores, curves, self.texts(), again, controls=controls)

    def edges_kept(self, panel, model, task):
        scores = self.edge_scores(model, task)
        ks = [0, 1, 3, 10, 30, 100, scores.size]
        told = {"units": "edges"}
        curves = [
            self.curve(model, task, o, ks, scores.size, scores.top(200, o), method="eap-ig", **told)
            for o in ("absolute", "signed")
        ]
        return KeptCell(
            panel, scores, [*curves, self.curve(model, task, "chance", ks, scores.size, **told)], self.texts()
        )

    def attention_edges_kept(self, panel, model, task):
        total, texts = 400, self.texts(7)
        first = {str(prompt): self._attention(7) for prompt in range(self.count)}
        ks = [0, 1, 2, 5, 10, 20, 100, total]
        told = {"units": "attention-edges"}
        curves = [self.curve(model, task, "absolute", ks, total, **told, own=first)]
        return KeptCell(panel, None, [*curves, self.curve(model, task, "chance", ks, total, **told)], texts)

    def _attention(self, tokens, edges=30):
        query = self.rng.integers(tokens, size=edges)
        key = (query * self.rng.random(edges)).astype(int)
        layer, head = (self.rng.integers(size, size=edges) for size in self.shape)
        score = np.sort(self.rng.gamma(1.0, size=edges))[::-1]
        return np.stack([layer, head, query, key, score], axis=1).astype(float)

    def head_roles(self, panel, model, task):
        free, plus, minus = (self.rng.random((3, *self.shape)).round() for _ in range(3))
        losses = self.rng.random((3, 5, 3))
        roles = hc.HeadRoles(model, task, "zero", free, plus, np.minimum(plus, minus), losses, provenance=ORIGIN)
        ks = [0, 1, 3, 7, 15]
        curves = []
        for order, slope in (("facilitation", -1.0), ("irrelevance", 0.0), ("interference", 0.3), ("chance", -0.3)):
            change = slope * np.array(ks)[None, :, None] + self.rng.normal(scale=0.1, size=(3, len(ks), self.count))
            change[:, 0] = 0.0
            values = {"log_prob": change - 5, "accuracy": np.ones_like(change), "log_prob_change": change}
            curves.append(hc.Curve(
                model, task, self.named(task), "heads", "gating", order, "mask", "zero", "log_prob_change", tuple(ks),
                roles.plus[0].size, (), values, kind="change", base="plus",
                whole={"log_prob": -5.0, "accuracy": 1.0}, provenance=ORIGIN,
            ))  # fmt: skip
        return RolesCell(panel, roles, curves, replace(self.texts(), counterfactuals=[None] * self.count))

    def masked_heads(self, panel, model, function):
        functions, total = ("retrieval", "inference"), self.shape[0] * self.shape[1]
        control = np.ones((2, 2, 2))
        probe = Probe(
            model, "built-in", functions, "first", self.rng.random((2, 2, *self.shape)),
            self.rng.random((2, *self.shape)), np.array([0.9, 0.8]), control, self.rng.random(self.shape), control, 0.5,
        )  # fmt: skip
        scores = probe.scores(function)
        asked = [
            Question(function, f"t{q % 4}", self.named(f"What is {q}?"), self.named(f"right {q}"))
            for q in range(self.count)
        ]
        whole, ks = [self.named(f"right {q}") for q in range(self.count)], (2, 4)
        places = ranked_places(np.arange(total), scores, "absolute")
        masked = {}
        for order in MASK_ORDERS:
            drawn = masked_heads(places, self.shape[1], order, ks, 3, 0)
            texts = [[self._said(order, draw, k) for k in ks] for draw in range(len(drawn))]
            heads = [[own.tolist() for own in by_k] for by_k in drawn]
            masked[order] = MaskedAnswers(order, ks, "scale(0.001)", "generated", heads, texts)
        curves = [masked_curve(None, asked, scores, said, whole, title=function)[0] for said in masked.values()]
        return MaskedCell(
            function, model, scores, curves, probe, asked, whole, masked, {function: 1.0}, None, "not asked for", {}, {}
        )

    def _said(self, order, draw, k):
        return [
            self.named(f"lost {q} at {k}" if order == "absolute" or (q + draw) % 3 == 0 else f"right {q}")
            for q in range(self.count)
        ]


WRITERS = {"head-roles": roles_outputs, "masked-heads": masked_outputs}


def write_by_hand(kind, folder, monkeypatch, models=("m",), tasks=("ioi",), hand=None, **overrides):
    """The whole output folder of a study, but for its figures; gives the cells, [task][model]."""
    outputs = WRITERS.get(kind, kept_outputs)
    hand = hand or ByHand()
    drawn = () if hand.mark else DRAWN[outputs.__name__.split(".")[-2]]
    for name in ("save_figure", *drawn):
        monkeypatch.setattr(outputs, name, lambda *args, **more: [])
    overrides |= {"comet": "no"} if kind == "masked-heads" else {}
    study = read_study(kind, models=[hand.named(name) for name in models], tasks=tasks, overrides=overrides)
    study = replace(study, title=hand.named(study.title))
    make = getattr(hand, kind.replace("-", "_"))
    cells = [[make(panel, name, panel.task) for name in panel.models] for panel in study.panels]
    folder.mkdir(parents=True, exist_ok=True)
    summary = outputs.write(folder, study, cells)
    tables = write_common(folder, study, [cell for row in cells for cell in row], summary, [])
    write_study_report(folder, study, cells, tables, {**summary})
    return cells
