"""Pictures: drawings of explanations in any script, curves of training and quality, and a report as one HTML page."""

from collections.abc import Callable
from typing import Any

from regard.viz import blocks, boxes, concepts, edges, gallery, gates, hops, matrix, path, places, shading, tape, video
from regard.viz.charts import Chart, chart_curves, glimpse_errors
from regard.viz.curves import LengthBucket, length_curves, loss_curves
from regard.viz.drawing import animate, can_move, draw, draw_beside
from regard.viz.gates import gate_histograms, gate_profiles
from regard.viz.heatmap import heatmap, save
from regard.viz.matrix import heatmaps
from regard.viz.overlay import CaptionOverlay, overlay, overlays
from regard.viz.page import RunReport, Sample, explanation_page, report_page
from regard.viz.path import glimpse_animation, glimpse_path
from regard.viz.places import position_maps
from regard.viz.seen_layer import SeenLayer
from regard.viz.trace_page import TracePage, trace_page
from regard.viz.trace_pictures import head_grid

DRAWINGS: dict[str, Callable[..., Any]] = {
    "matrix": matrix.draw,
    "path": path.draw,
    "places": places.draw,
    "gates": gates.draw,
    "edges": edges.draw,
    "hops": hops.draw,
    "tape": tape.draw,
    "shading": shading.draw,
    "concepts": concepts.draw,
    "blocks": blocks.draw,
    "gallery": gallery.draw,
    "boxes": boxes.draw,
    "video": video.draw,
}

__all__ = [
    "DRAWINGS",
    "CaptionOverlay",
    "Chart",
    "LengthBucket",
    "RunReport",
    "Sample",
    "SeenLayer",
    "TracePage",
    "animate",
    "can_move",
    "chart_curves",
    "draw",
    "draw_beside",
    "explanation_page",
    "gate_histograms",
    "gate_profiles",
    "glimpse_animation",
    "glimpse_errors",
    "glimpse_path",
    "head_grid",
    "heatmap",
    "heatmaps",
    "length_curves",
    "loss_curves",
    "overlay",
    "overlays",
    "position_maps",
    "report_page",
    "save",
    "trace_page",
]
