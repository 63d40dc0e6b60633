"""Pictures of weights, with labels in any script: `heatmap` for one matrix, `heatmaps` for heads × layers, `save`."""

from regard.viz.heatmap import heatmap, heatmaps, save

__all__ = ["heatmap", "heatmaps", "save"]
