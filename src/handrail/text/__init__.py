"""Pure text: lines, encodings, matching, splicing, diffs. No I/O and no state in this room."""
