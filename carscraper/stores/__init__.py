"""Databases that records also go to, and the way there."""
