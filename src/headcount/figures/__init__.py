"""Results as figures that could go into a paper."""

from .agreement import draw_agreement as draw_agreement
from .functions import draw_functions as draw_functions
from .kept import draw as draw
from .kept import plot as plot
from .masked import draw_masked as draw_masked
from .masked import shown_similarity as shown_similarity
from .roles import draw_roles as draw_roles
from .steering import draw_steering as draw_steering
from .style import save_figure as save_figure
