"""The classifier of Cognitive Mirrors (arXiv 2512.10978): one network reads all heads and names the function.

A head's features are its value and the mean of its layer, x = [z ; mean over the layer's heads]. One projection for all
heads, p = W x, then all p side by side through a hidden layer to a logit a function. The importance of head j for the
function c is gradient times activation on questions that the classifier was not fitted on,

    I_j^(c) = mean over questions of c of  mean over dimensions of  (d logit_c / d p_j) * p_j

and heads are ranked by |I|. The published fit goes through the questions one by one in their order for 100 epochs;
here they are shuffled and come in batches, with a larger rate, which ends at the same place sooner. `PUBLISHED` has the
published settings.
"""

from typing import cast

import torch
from torch import Tensor, nn

from .fit import ProbeFit

PUBLISHED = ProbeFit(epochs=100, batch=1, rate=1e-4, shuffle=False)


class JointClassifier(nn.Module):
    def __init__(self, features: int, heads: int, classes: int, fit: ProbeFit) -> None:
        super().__init__()
        self.project = nn.Linear(features, fit.projection)
        hidden, out = nn.Linear(heads * fit.projection, fit.hidden), nn.Linear(fit.hidden, classes)
        self.classify = nn.Sequential(nn.Flatten(), hidden, nn.ReLU(), nn.Dropout(fit.dropout), out)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.classify(self.project(x)))

    def importance(self, x: Tensor, labels: Tensor) -> Tensor:
        """Gradient times activation for the label's own logit, [question, head]."""
        projected = self.project(x).detach().requires_grad_()
        own = self.classify(projected).gather(1, labels[:, None]).sum()
        (gradient,) = torch.autograd.grad(own, projected)
        return cast(Tensor, (gradient * projected).mean(-1).detach())


def features(values: Tensor, layer_mean: bool) -> Tensor:
    """[question, head, feature] of values [question, layer, head, head size]."""
    if layer_mean:
        values = torch.cat([values, values.mean(2, keepdim=True).expand_as(values)], dim=-1)
    return values.flatten(1, 2)


def fit_joint(values: Tensor, labels: Tensor, classes: int, fit: ProbeFit, seed: int) -> JointClassifier:
    """A classifier fitted to values [question, layer, head, head size]."""
    x = features(values, fit.layer_mean)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        classifier = JointClassifier(x.shape[2], x.shape[1], classes, fit)
        optimiser = torch.optim.AdamW(classifier.parameters(), lr=fit.rate, fused=True)
        for _ in range(fit.epochs):
            order = torch.randperm(len(x)) if fit.shuffle else torch.arange(len(x))
            for part in order.split(fit.batch):
                loss = nn.functional.cross_entropy(classifier(x[part]), labels[part])
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()
    return classifier.eval()
