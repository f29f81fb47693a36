"""Scores of heads and edges, all of one shape. (No torch, so that methods are listed at once.)"""

from .method import METHODS, Method, Request, register_method

__all__ = ["METHODS", "Method", "Request", "register_method"]
