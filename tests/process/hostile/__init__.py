"""An arsenal of hostile clients against one real daemon, next to well-behaved clients.

    python -m tests.process.hostile --minutes 30        also: make hostile MINUTES=30

    campaign (this process)              attackers (their own process, nice 19)
      good clients, 300 operations/s       sockets, frames, floods, readers, guessers,
      watch: latency, memory, exits        liars, deputies, hoarders: several at a time
              │                                     │
              ╰────────────▶  qmgrd  ◀──────────────╯
                     killed -9 now and then, then verified and started again

A campaign consists of acts. Each act has its own store: ``few`` definitions, ``many`` (9,900
queues, 3,000 topics, 1,000 templates), or ``full`` (a small map that attackers fill). An act
alternates calm windows, which set the normal latency, with attacks. At the end of an act the load
stops, everything drains, and the daemon stops, is verified and starts again.

The laws:

    lost, doubled     each acknowledged put reaches each of its consumers exactly once; a message
                      that is delivered again is flagged as redelivered
    stolen            no lease of another client ends by a guessed handle
    unexpected_exits  the daemon ends only when the campaign kills it, and starts each time
    turns_failed      the daemon never undoes a turn because of a bug
    rss_max_mib       the daemon's own memory (RssAnon) stays below a limit; the memory for the
                      definitions of a store is reported separately
    p99_ratio         the good clients' p99 under attack, against that of the calm windows: the
                      medians of all windows with a kind of store, and the worst kind counts.
                      Up to 100 ms no ratio breaks the law: a flood may use two turns of
                      limits.turn_ms
    longest_stall_ms  no operation of a good client takes longer than a limit
    verify            ``qmctl store verify`` finds the store sound after each kill and at the end

The machine may have only two cores, so attackers must not simply use up the processor. They run
with nice 19, and share one budget of frames and bytes (``enemy.Pace``). A burst may fill one
connection's window, but the average rate is small. If a daemon charges small requests their true
cost, this does not slow it down. If some kilobytes cost a daemon seconds, it does.

The daemon has no access rights yet, so some attacks would trivially succeed. These are left out:
attackers do not get, purge, move or delete on the good clients' queues, do not set templates,
topics or limits that match their names, do not close their connections, and do not write snapshots
to places where the daemon may write.
"""
