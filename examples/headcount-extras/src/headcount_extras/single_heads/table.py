"""The study in the terminal."""

from headcount.studies.table import print_end, print_warnings
from headcount.view.tables import number, print_table


def show(result) -> None:
    rows = [
        (
            cell["task"],
            cell["model"],
            f"{cell['metric']} {number(cell['whole'], '.2f')}",
            f"{cell['first']}, by {number(cell['first_fall'], '.2f')}",
            f"{cell['harmful']} of {cell['heads']}",
            f"{number(cell['left_together'], '.2f')} without {cell['together']}",
        )
        for cell in result.summary["cells"]
    ]
    print_warnings(result)
    print_table(("task", "model", "whole", "falls most without", "rises without", "together"), rows)
    print_end(result)
