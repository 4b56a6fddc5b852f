"""Puts of clients and publications: from a request to the rows of queues and subscriptions.

* `client_put.py` is the one way in for puts of clients, and for puts on their behalf.
* `refusal_reports.py` reports refused puts to operators.
* `publications.py` stores each publication once and sends it out to subscriptions in batches. For
  each subscription, `fan_out.py` stores references on its queue, and `forward.py` puts copies on a
  link if the subscription belongs to another queue manager.

How a queue checks, stamps and stores a batch is in `queue/put.py`. Puts over a link enter by
`sessions/link_streams.py`.

Invariant: a publication is stored as long as a subscription holds a reference to it, or until all
of its batch is sent out. The count of holders is written in the turn that changes it.
"""
