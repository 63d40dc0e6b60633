"""Pictures: heat maps of weights in any script, curves of training and quality, and a report as one HTML page."""

from regard.viz.charts import glimpse_errors
from regard.viz.curves import LengthBucket, length_curves, loss_curves
from regard.viz.gates import gate_histograms, gate_profiles
from regard.viz.heatmap import heatmap, save
from regard.viz.matrix import heatmaps
from regard.viz.overlay import CaptionOverlay, overlay, overlays
from regard.viz.page import RunReport, Sample, report_page
from regard.viz.path import glimpse_animation, glimpse_path
from regard.viz.places import position_maps

__all__ = [
    "CaptionOverlay",
    "LengthBucket",
    "RunReport",
    "Sample",
    "gate_histograms",
    "gate_profiles",
    "glimpse_animation",
    "glimpse_errors",
    "glimpse_path",
    "heatmap",
    "heatmaps",
    "length_curves",
    "loss_curves",
    "overlay",
    "overlays",
    "position_maps",
    "report_page",
    "save",
]
