"""Rules for logins."""
