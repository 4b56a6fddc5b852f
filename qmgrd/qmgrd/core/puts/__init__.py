"""Puts of clients and publications: from a request to the rows of queues and subscriptions.

* `client_put.py` stores all puts of clients, and puts on their behalf.
* `refusal_reports.py` reports refused puts to operators.
* `publications.py` stores each publication once and sends it to subscriptions in batches. For each
  subscription, `fan_out.py` stores references on its queue, and `forward.py` puts copies on a link
  if the subscription belongs to another queue manager.

`queue/put.py` defines how a queue checks, stamps and stores a batch. Puts over a link arrive
through `sessions/link_streams.py`.

Invariant: a publication is stored while a subscription holds a reference to it, and until its whole
batch has been sent. The number of holders is written in the turn that changes it.
"""
