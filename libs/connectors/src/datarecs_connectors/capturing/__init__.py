"""Captures of sources: tables, snapshots, files, and their statistics."""
