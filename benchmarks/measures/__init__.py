"""One module for each question. Each function runs its rounds, and returns rows of the table."""
