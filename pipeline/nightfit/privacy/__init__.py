"""Events, accounting, noise, ledger and audit: what was spent, what it means, and the only sampler."""
