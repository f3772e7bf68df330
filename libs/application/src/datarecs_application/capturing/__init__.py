"""Captures: the queue of their work, what each part of a tree does, and how it ends."""
