"""The stdio door: our own loop on the standard library, because a client does not wait for long."""
