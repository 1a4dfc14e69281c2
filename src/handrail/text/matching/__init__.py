"""Find where an edit applies. Forgives what models get wrong, and never guesses."""
