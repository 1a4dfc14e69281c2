"""Tests of remote sessions."""
