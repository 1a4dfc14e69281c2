"""Shapes of specs and results in the protocols that several interfaces share."""
