"""Captures: their queue, and what workers may do."""
