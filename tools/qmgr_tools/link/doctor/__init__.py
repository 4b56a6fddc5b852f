"""`qmctl link doctor`: finds the reasons why a link makes no progress."""
