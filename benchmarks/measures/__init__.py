"""One module a question; each function runs its rounds and answers rows of the table."""
