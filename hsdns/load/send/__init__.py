"""Sends queries when they are due and receives their replies, in a process of its own."""
