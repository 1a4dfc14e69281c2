"""The HTTP door: the official SDK behind a gate of ours."""
