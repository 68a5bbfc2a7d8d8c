"""Announcements to whoever listens, with indexes that say when to listen (seed 003)."""
