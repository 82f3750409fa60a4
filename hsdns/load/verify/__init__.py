"""Judges answers by the cluster's states over time, and follows changes until they show."""
