"""A model in other tools: spaCy, the Hugging Face Hub."""
