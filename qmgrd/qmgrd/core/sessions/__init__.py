"""Sessions of clients and peers: their streams, consumers, settlements, units and subscriptions."""
