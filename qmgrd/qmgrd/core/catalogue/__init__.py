"""Definitions: the queues, aliases, templates, topics, subscriptions and links that exist.

* `catalogue.py` has all queues by name and finds the queue for a name. `named.py` has the names
  without a local queue, which are aliases, remote queues and proxies. `name_index.py` indexes them
  by the names that they refer to. `route.py` finds the link to another queue manager, and stops
  messages that travel in a circle. `system.py` lists the queues that the daemon creates for itself.
* Attributes: `attribute.py` checks one value, and `attributes.py` checks the attributes of each
  kind of queue. `templates.py` and `template_definitions.py` apply attributes to queues by name
  patterns. `definition.py` refuses definitions that contradict others.
* Links: `link_definitions.py` creates and alters links. `link_attributes.py` checks their
  attributes. `link_facts.py` describes a link to operators.
* Topics: `topics.py` has definitions and subscriptions by topic. `topic_tree.py` matches topics
  with filters. `subscription.py` is one subscription. `republish_intervals.py` counts intervals.
  `sorted_map.py` keeps topics in order.
* Start: `boot.py` checks that the store belongs to this queue manager and raises the boot number.
  `row_checks.py` checks that a stored row is valid.
* Errors: `missing.py` has the errors for unknown names. `near.py` suggests the closest name.

Invariant: each definition is a row in the store, and the objects here are made from these rows. A
turn that changes a definition also writes its row.
"""
