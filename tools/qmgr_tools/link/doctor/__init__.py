"""`qmctl link doctor`: finds why a link makes no progress."""
