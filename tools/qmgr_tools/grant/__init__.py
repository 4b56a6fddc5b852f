"""Grants of rights to users and roles."""
