"""The studio: a local web page that draws explanations, so that a model can be explored with pointer and keyboard."""

__all__: list[str] = []
