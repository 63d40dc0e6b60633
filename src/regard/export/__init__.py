"""Trained models in the formats of other libraries. FORMATS is the menu; each format is imported when it is used."""

from regard.export.exporting import FORMATS, check_format, export_model

__all__ = ["FORMATS", "check_format", "export_model"]
