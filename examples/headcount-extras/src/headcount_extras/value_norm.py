"""How much a head writes: the norm of its output, a mean over positions. It knows nothing of the answer, and so it has
no sign.

    score(h) = mean over positions of |z_h W_h|         at the clean prompt
"""

from headcount import Method


def value_norm(model, examples, request):
    # Imported when the method runs, so that listing it needs no torch.
    from headcount.edit import head_values
    from headcount.rank.gradients import by_batch, sum_where

    def score(indices, batch):
        norms = []
        for layer, z in enumerate(head_values(model, batch.clean)):
            written = z.unsqueeze(-2) @ model.anatomy.out_weight(layer).detach()
            norms.append(written.squeeze(-2).norm(dim=-1))
        positions = sum_where([norm * 0 + 1 for norm in norms], batch, request)
        return sum_where(norms, batch, request) / positions

    return by_batch(model, examples, request, 1, score)


METHOD = Method("value-norm", "mean norm of what the head writes", "1", value_norm, signed=False)
