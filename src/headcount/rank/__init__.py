"""Scores of heads and edges: one method a file, all of one shape. (No torch, so that they are listed at once.)"""

from .method import METHODS as METHODS
from .method import Method as Method
from .method import Request as Request
from .method import register_method as register_method
