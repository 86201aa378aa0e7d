"""E-mails: `messages` writes them, `smtp` sends them (section 1: automated e-mails on migration)."""
