"""Hostile clients attack one real daemon that also serves well-behaved clients.

    python -m tests.process.hostile --minutes 30        also: make hostile MINUTES=30

    campaign (this process)              attackers (their own process, nice 19)
      good clients, 300 operations/s       sockets, frames, floods, readers, guessers,
      watch: latency, memory, exits        liars, deputies, hoarders: several at a time
              │                                     │
              ╰────────────▶  qmgrd  ◀──────────────╯
                     sometimes killed -9, then verified and started again

A campaign consists of acts. Each act has its own store: ``few`` definitions, ``many`` (9,900
queues, 3,000 topics, 1,000 templates), ``full`` (a small map that attackers fill), or ``secured``
(TLS and users). An act
alternates calm windows, which set the normal latency, with attacks. At the end of an act the load
stops, everything drains, and the daemon stops, is verified and starts again.

The invariants:

    lost, doubled     each acknowledged put reaches each of its consumers exactly once; a message
                      that is delivered again is flagged as redelivered
    stolen            no lease of another client ends by a guessed handle
    unexpected_exits  the daemon ends only when the campaign kills it, and always starts again
    let_in            no login with a guessed password succeeds
    turns_failed      the daemon never undoes a turn because of a bug
    rss_max_mib       the daemon's own memory (RssAnon) stays below a limit; the memory for the
                      definitions of a store is reported separately
    p99_ratio         ratio of the good clients' p99 under attack to their p99 in calm windows: the
                      medians of all windows with a kind of store, for the worst kind. Up to
                      100 ms, no ratio breaks the invariant, because a flood may use two turns
                      of limits.turn_ms
    longest_stall_ms  no operation of a good client takes longer than a limit
    verify            ``qmctl store verify`` finds no damage after each kill and at the end

The machine may have only two cores, so attackers must not simply use up the processor. They run
with nice 19, and share one budget of frames and bytes (``enemy.Pace``). A burst may fill the window
of one connection, but the average rate is small. Such attacks do not slow down a daemon that
charges requests their true cost. They slow down a daemon that spends seconds on a few kilobytes.

Only the daemon of ``secured`` has users. Attacks that would trivially succeed without users are
excluded. Attackers do not get, purge, move or delete on the good clients' queues. Attackers do not
set templates, topics or limits that match the names of these queues. They do not close the good
clients' connections, and do not write snapshots where the daemon may write.
"""
