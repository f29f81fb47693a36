"""The one place where a model's activations are changed, always inside a `with` block.

A head is (layer, head). Its value z, [batch, position, head size], is a slice of what enters the attention output
projection. A cut leaves some heads alone and puts something else in the place of the others, or lets a share of them
through: see `heads` for reading and replacing, `fills` for what takes their place, `cut` for cutting, `branches` for
what cuts share that run together.
"""

from .branches import Branches as Branches
from .cut import cut as cut
from .cut import cut_heads as cut_heads
from .fills import Fill as Fill
from .fills import Filler as Filler
from .fills import Filling as Filling
from .fills import check_fill as check_fill
from .fills import first_reached as first_reached
from .fills import mean_head_values as mean_head_values
from .heads import Head as Head
from .heads import Share as Share
from .heads import head_name as head_name
from .heads import head_values as head_values
from .heads import mix_inputs as mix_inputs
from .heads import push_heads as push_heads
from .heads import visit_heads as visit_heads
