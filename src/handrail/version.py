"""The version of the package, apart from the public names: the interfaces need no more than this."""

__version__ = "0.2.0"
