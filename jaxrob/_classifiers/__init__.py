"""Networks of any framework as classifiers, and data of any library as arrays."""
