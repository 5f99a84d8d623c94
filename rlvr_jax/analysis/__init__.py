"""Readers of run folders.  Nothing here changes a run, and nothing here imports jax."""
