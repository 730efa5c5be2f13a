"""Statistical checks, and valid calls of public functions."""
