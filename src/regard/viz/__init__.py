"""Pictures: heat maps of weights in any script, curves of training and quality, and a report as one HTML page."""

from regard.viz.curves import LengthBucket, length_curves, loss_curves
from regard.viz.gates import gate_histograms, gate_profiles
from regard.viz.glimpse_errors import glimpse_errors
from regard.viz.glimpses import glimpse_animation, glimpse_path
from regard.viz.heatmap import heatmap, heatmaps, save
from regard.viz.maps import position_maps
from regard.viz.overlay import Told, overlay, overlays
from regard.viz.page import RunReport, Sample, report_page

__all__ = [
    "LengthBucket",
    "RunReport",
    "Sample",
    "Told",
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
