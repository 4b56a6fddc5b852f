"""Commands on a store and its snapshots, exports, history and reports."""
