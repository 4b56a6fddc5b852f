"""Explanations of rights."""
