"""The selector language: parsed and evaluated."""
