"""The simulator runs a whole network in one process. The same seed repeats a run exactly.

Queue managers, clients and wires run under a simulated clock, while faults occur at random:

    python -m tests.sim.run --seeds 200      run 200 seeds
    python -m tests.sim.run --seeds 1 --start 17      repeat seed 17

    run ──▶ world ──▶ population (queues and clients), scenario (limits, habits), faults
     │        │
     │      chance (random steps, then rest)
     │        │
     ├────▶ net ──▶ net_app (clients), net_account (invariants): several hops, and restored stores
     ╰────▶ topics ──▶ topic_app, topic_account: publish, park and republish
              │
            lab ──▶ node (the daemon's shell, on the production core and memory store) ──▶ store
              │      wire (connections), client, producer, consumer, app (the production client)
              ▼
            watch (each commit and each message sent), audit (at rest), ledger (accounts)

A producer puts, a consumer gets, and a worker does both in units of work. These three clients use
the bare protocol. An app (app.py, app_unit.py) does the same with the production client.

Every third seed also has hostile clients (hostile.py). Hostile clients may send anything, and the
invariants must still hold for all others. test_hostile.py shows bugs that only hostile clients
find.

Some seeds have users (users.py), whose rights an operator grants and revokes at random.

Some queue managers keep accounts (accounts.py). tests/qmgrd/core/replay.py checks these histories
against the stored messages. Exporters (exporter.py), which also crash, export some of them.

All time is simulated, so no step really waits. The store clock follows the simulated clock, and the
wall clocks jump.

The invariants, each with its number in docs/behaviour.md if it has one:
    1  acked_is_durable, committed_is_held, settled_is_durable
    2  delivered_was_accepted, delivered_is_on_the_queue, damaged_is_not_delivered
    3  order_per_producer, order_of_arrival
    4  commit_id_grows, commit_id_was_assigned
    5  deleted_is_held_by_the_receiver
    6  acknowledged_is_never_lost, nothing_is_doubled, all_is_drained, refused_is_not_stored
    7  counters_equal_contents, uid_index_agrees, origin_table_covers, bodies_are_referenced,
       contents_as_watched, turns_are_counted, schedule_agrees, selection_agrees, notes_agree
    8  within_budget, credit_is_respected, nothing_leaks, nothing_spins
    9  drains_in_time
    u  unit_is_all_or_nothing
    f  failures_are_counted, threshold_is_respected, dead_letters_have_a_cause, dead_letters_stay
    t  nothing_before_its_time, nothing_after_its_time, expiry_is_as_put, leased_is_left_alone,
       expired_when_its_time_is_over, volatile_is_gone_after_a_restart
    g  members_are_in_order, group_has_one_holder, stopped_is_held_back, taken_over_is_told,
       number_is_put_once, members_wait_for_their_group, groups_agree
    p  each_gets_its_own, nobody_else_gets_it, publication_is_kept, publications_are_held,
       nothing_is_kept_for_nobody, parked_is_on_the_list, republished_as_decided,
       republished_begins_anew, republished_is_flagged
    n  keeps_to_its_way, what_goes_in_a_circle_is_a_dead_letter, losses_are_told
    h  accounts_are_true, accounts_are_possible, accounts_agree, accounts_are_wanted,
       rows_are_in_line, rows_are_kept, exported_once, transferred_has_come
    s  let_in_nothing
    -  delivered_again_has_a_cause, delivered_again_is_flagged, redelivered_was_delivered,
       maybe_has_a_crash, settled_by_its_holder, removed_was_acknowledged, ready_is_found,
       one_message_of_a_uid_on_a_queue, uid_is_as_told, answer_stays_the_same,
       refusals_have_a_cause, selected_is_what_was_asked_for, inhibited_is_held_back,
       producer_is_known, peers_keep_the_protocol, no_link_is_refused, clocks_never_go_back,
       same_seed_same_bytes

test_broken.py, test_broken_features.py, test_broken_groups.py, test_net.py, test_topics.py and
test_accounts.py plant bugs, and show that an invariant catches each. test_found.py replays the bugs
that the simulator has found. test_link_behaviour.py and context/test_peers.py drive two queue
managers step by step (pair.py).
"""
