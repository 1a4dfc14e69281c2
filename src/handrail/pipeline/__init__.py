"""The pipeline: every tool call passes through the same steps, in one fixed order."""
