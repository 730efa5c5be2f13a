"""The share of a box of levels that is accepted, and the model that finds it."""
