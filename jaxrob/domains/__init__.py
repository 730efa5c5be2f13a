"""Several alterations at once: what is accepted, where it is safe, how often it fails."""
