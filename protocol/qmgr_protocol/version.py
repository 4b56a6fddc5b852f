"""The version of all packages."""

VERSION = "0.1.0"
