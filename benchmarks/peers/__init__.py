"""The same work through Handrail and through the tools that people use today, each in an environment of its own."""
