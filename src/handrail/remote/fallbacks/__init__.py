"""Stand-ins for compiled libraries, in the bundle for machines whose Python cannot load those of this one."""
