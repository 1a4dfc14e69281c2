"""Pure functions on text: lines, encodings, matching, splices, diffs. No I/O and no state."""
