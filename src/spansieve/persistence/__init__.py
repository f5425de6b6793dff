"""Folders written whole or not at all."""
