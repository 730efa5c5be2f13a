"""Files: opened only if regular, read within limits, written whole or not at all."""
