"""The report of a study of roles: how many heads have which role, and what the curves by role do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.words import ROLES
from ...rank.roles import HeadRoles
from ...view.page.data import MapData, Report, RolesData
from ...view.page.maps import map_data, roles_data
from ..report import Found

if TYPE_CHECKING:
    from .outputs import RolesEntry, RolesSummary

VERBS = {"facilitation": "help", "irrelevance": "do neither", "interference": "hurt"}


def page(found: "Found[RolesSummary]") -> Report:
    entries = found.summary["cells"]
    first = entries[0]
    roles, maps = _roles(found)
    return Report(
        kind=str(found.summary["kind"]),
        title=str(found.summary["title"]),
        sentences=[_sentence(entry) for entry in entries],
        warnings=_warnings(entries),
        caveats=[
            "Gates are fitted to all heads together, on train prompts. A head helps where its gate stays open under a"
            " pull to shut it, hurts where it shuts under a pull to keep it open, and does neither in between (causal"
            " head gating, Nam et al. 2025).",
            "Curves: log-probability with the first k heads of a role at 0, minus that with them at 1, on test prompts;"
            f" the other gates as in {'G+' if first['base'] == 'plus' else 'all ones'}. Shut gates let"
            f" {first['fill']} through.",
            f"{first['seeds']} fits each; bands are 90 % intervals over fits and prompts.",
        ],
        roles=roles,
        maps=maps,
    )


def _sentence(entry: "RolesEntry") -> str:
    shares = [f"{entry['shares'][role]['mean'] or 0:.0%}".replace("%", " %") + f" {VERBS[role]}" for role in ROLES]
    words = entry["words"]
    told = f"log-probability by facilitation {words['facilitation']}, by interference {words['interference']}"
    return f"{entry['task']}, {entry['model']}: of {entry['heads']} heads {', '.join(shares)}; {told}."


def _warnings(entries: "Sequence[RolesEntry]") -> list[str]:
    found = []
    for entry in entries:
        agree = entry["seed_agreement"].get("gating")
        if agree is not None and agree < 0.5:
            words = f"the fits agree little on which heads help (rank correlation {agree:.2f})"
            found.append(f"{entry['task']}, {entry['model']}: {words}; read the role of a single head with care.")
        if entry["seeds"] < 2:
            found.append(f"{entry['task']}, {entry['model']}: one fit alone; how far another would agree is not known.")
    return found


def _roles(found: "Found[RolesSummary]") -> tuple[list[RolesData], list[MapData]]:
    """With helps minus hurts as a map of scores beside."""
    if found.cells:
        listed = [(number, cell.scores) for number, row in enumerate(found.cells) for cell in row]
    else:
        panels = {(curve.task, curve.model): curve.panel for curve in found.curves}
        loaded = [HeadRoles.load(path.parent) for path in sorted(found.folder.glob("roles/*/roles.json"))]
        listed = [(panels.get((roles.task, roles.model), 0), roles) for roles in loaded]
    maps = [map_data(roles.scores(), number, roles.fill) for number, roles in listed]
    return [roles_data(roles, number) for number, roles in listed], maps
