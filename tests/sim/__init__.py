"""The simulator: queue managers, clients and a wire in one process, repeatable from one seed."""
