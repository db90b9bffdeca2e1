"""Kueue seen from outside: `objects` are the fields read, `board` the live copy, `figures` what they mean."""
