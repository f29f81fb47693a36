"""A study of roles in the terminal."""

from ...core.words import ROLES
from ...view.tables import number, print_table, say
from ..runner import StudyResult
from ..table import print_end, print_warnings
from .outputs import RolesSummary


def show(result: StudyResult[RolesSummary]) -> None:
    """One row per task and model for the model and its heads, and what the curves do in words."""
    cells = result.summary["cells"]
    first = cells[0]
    say()
    print_warnings(result)
    if result.summary["warnings"]:
        say()
    say(f"{first['seeds']} fits of causal head gating each; fill {first['fill']}, base {first['base']}.")
    say("Roles: share of the heads with a score of at least one half (in every fit, in any fit).")
    say("Agree: rank correlation between fits, of helps minus hurts.")
    say("Log P, right: the whole model's log-probability of a target token, and its accuracy.")
    named = ("task", "model")[: min(len({cell["model"] for cell in cells}), 2)]
    rows, changes = [], []
    for cell in cells:
        name = [cell["task"], cell["model"]][: len(named)]
        shares = [cell["shares"][role] for role in ROLES]
        told = [f"{by['mean']:.0%} ({by['always']:.0%}, {by['any']:.0%})" for by in shares]
        agree, whole = cell["seed_agreement"]["gating"], cell["whole_model"]
        per_token = whole.get("log_prob_per_token", whole["log_prob"])
        good = number(per_token, ".2f"), number(whole["accuracy"], ".0%")
        rows.append((*name, *told, "" if agree is None else f"{agree:.2f}", *good))
        for role, curve in cell["curves"].items():
            changes.append((*name, role, number(curve["last"], "+.2f"), cell["words"].get(role, "")))
    print_table((*named, *ROLES, "agree", "log P", "right"), rows)
    say("Change in log-probability when heads are ablated in the order of a role:")
    print_table((*named, "order", f"at k = {first['curves']['chance']['last_k']}", "on the way"), changes)
    print_end(result)
