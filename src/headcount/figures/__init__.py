"""Results as figures that could go into a paper."""

from .agreement import draw_agreement as draw_agreement
from .kept import draw as draw
from .kept import plot as plot
from .roles import draw_roles as draw_roles
from .style import save_figure as save_figure
