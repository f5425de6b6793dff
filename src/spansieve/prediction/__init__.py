"""Text in, entities out."""
