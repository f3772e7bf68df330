"""Captures: metadata and statistics of sources, planned and recorded by a tree of work items."""
