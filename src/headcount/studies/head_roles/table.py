"""A study of roles in the terminal."""

from typing import cast

from ...core.words import ROLES
from ...view.tables import number, print_table
from ..runner import StudyResult
from ..table import print_end
from .outputs import RolesEntry, RolesSummary


def show(result: StudyResult) -> None:
    """A row a task and model for the model and its heads, and what the curves do in words."""
    cells = cast(RolesSummary, result.summary)["cells"]
    first = cells[0]
    print(f"\n{first['seeds']} fits of causal head gating each; fill {first['fill']}, base {first['base']}.")
    print("Share of the heads with a score of at least one half (in every fit, in any);")
    print("agree: rank correlation between fits, of helps minus hurts;")
    print("log P, right: the whole model's log-probability of a target token, and its accuracy.")
    many = len({cell["model"] for cell in cells}) > 1
    rows = []
    for cell in cells:
        shares = [cell["shares"][role] for role in ROLES]
        told = [f"{by['mean']:.0%} ({by['always']:.0%}, {by['any']:.0%})" for by in shares]
        agree, whole = cell["seed_agreement"]["gating"], cell["whole_model"]
        per_token = whole.get("log_prob_per_token", whole["log_prob"])
        good = number(per_token, ".2f"), number(whole["accuracy"], ".0%")
        rows.append((*_named(cell, many), *told, "" if agree is None else f"{agree:.2f}", *good))
    header = ("task", "model") if many else ("task",)
    print_table((*header, *ROLES, "agree", "log P", "right"), rows)
    print("Change in log-probability when heads are ablated in the order of a role:")
    changes = [
        (*_named(cell, many), role, number(cell["curves"][role]["last"], "+.2f"), cell["words"].get(role, ""))
        for cell in cells
        for role in cell["curves"]
    ]
    print_table((*header, "order", f"at k = {first['curves']['chance']['last_k']}", "on the way"), changes)
    print_end(result)


def _named(cell: RolesEntry, many: bool) -> tuple[str, ...]:
    return (cell["task"], cell["model"]) if many else (cell["task"],)
