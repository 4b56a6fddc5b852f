"""Message groups, as a client puts and gets them."""
