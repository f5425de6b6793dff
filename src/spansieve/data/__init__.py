"""Text on disk ↔ examples ↔ batches."""
