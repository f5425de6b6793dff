"""Assemblies: one file per row of the paper's table, and how a model is stored."""
