"""A model in other people's tools: spaCy, the Hugging Face Hub."""
