"""Which commands a script would run, and what they would read, write, delete or reach."""
