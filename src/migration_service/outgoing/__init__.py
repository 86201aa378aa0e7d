"""HTTP connections to other servers: `deadlines` limits their time, `guarded` checks addresses by `rules`."""
