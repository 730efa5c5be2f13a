"""Random cases: the same networks, data and questions for the library and NumPy."""
