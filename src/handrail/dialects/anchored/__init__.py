"""Adapters of the dialect `anchored`: Read and Grep that show the tag of each line."""
