"""Stores with one impossible row each. A queue manager must still start and serve clients."""
