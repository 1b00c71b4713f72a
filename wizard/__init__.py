"""llm-setup: from a bare GPU, or only a URL and a key, to a coding agent that answers."""

__version__ = "0.1.0"
