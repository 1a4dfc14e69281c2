"""Integrations: a session's tools for model APIs and agent frameworks, one module each. Nothing is imported here."""
