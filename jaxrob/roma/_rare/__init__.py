"""Rare events: importance sampling, multilevel splitting, and their cascade."""
