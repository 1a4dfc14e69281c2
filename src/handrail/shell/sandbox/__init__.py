"""What holds commands: bubblewrap, Landlock and seccomp, a scrubbed environment. Begin with `sandbox.py`."""
