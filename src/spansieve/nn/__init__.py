"""Learned parts: words in, vectors out; vectors in, scores of segments out."""
