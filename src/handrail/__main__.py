"""`python -m handrail`: the same as the `handrail` command."""

from handrail.cli import main

raise SystemExit(main())
