"""Agents: strangers to each other, each a callable that answers a Run with items."""
