"""Certificates for TLS."""
