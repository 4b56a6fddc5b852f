"""The demo: flights from three airports to one hub, while daemons are killed."""
