"""Integrations: regard inside of other libraries. Each is an extra, and its library is imported when it is called."""

from regard.integrations import transformers

__all__ = ["transformers"]
