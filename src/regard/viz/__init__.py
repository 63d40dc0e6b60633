"""Pictures: heat maps of weights in any script, curves of training and quality, and a report as one HTML page."""

from regard.viz.curves import LengthBucket, length_curves, loss_curves
from regard.viz.heatmap import heatmap, heatmaps, save
from regard.viz.page import RunReport, Sample, report_page

__all__ = [
    "LengthBucket",
    "RunReport",
    "Sample",
    "heatmap",
    "heatmaps",
    "length_curves",
    "loss_curves",
    "report_page",
    "save",
]
