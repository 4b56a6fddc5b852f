"""Stores with one impossible row each. A queue manager must start from each and serve clients."""
