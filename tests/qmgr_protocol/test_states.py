from qmgr_protocol.states import Move, Side, State


def test_states_are_in_the_order_in_which_a_connection_enters_them() -> None:
    assert [state.name for state in State] == [
        "IDLE",
        "GREETING",
        "CHALLENGED",
        "ANSWERED",
        "OPEN",
        "CLOSED",
    ]


def test_move_names_who_moves_the_connection() -> None:
    assert Move(State.IDLE, Side.DIALLER, State.GREETING).sender is Side.DIALLER
