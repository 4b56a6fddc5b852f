"""The users of the demo. Each has only the rights that its programs need."""

from collections.abc import Sequence

from qmgr_demo.delays import ROOT
from qmgr_demo.delays_run import BOARDS, DISPATCHER
from qmgr_demo.flights import AIRPORTS
from qmgr_demo.leg_consumer import FLOWN, LEGS
from qmgr_demo.pinned import APRON, OPERATOR, PLANNER
from qmgr_demo.security import ADMIN, User
from qmgr_demo.traffic import ARRIVALS, DEPARTURES, HUB, MONITOR, QUEUE, REMOTE

_LINKS = [User(name, ["peer"], queue_manager=name) for name in AIRPORTS]
_CLIENTS = [
    User(MONITOR, ["monitor"]),
    User(OPERATOR, ["operator"]),
    User(ARRIVALS, grants=[(["get"], "queue", QUEUE)]),
    User(PLANNER, grants=[(["put"], "queue", LEGS), (["browse"], "queue", FLOWN)]),
    User(APRON, grants=[(["get"], "queue", LEGS), (["put"], "queue", FLOWN)]),
    User(DISPATCHER, grants=[(["publish"], "topic", f"{ROOT}/#")]),
    User(
        BOARDS,
        grants=[
            (["subscribe"], "topic", f"{ROOT}/#"),
            (["create", "get", "delete"], "subscription", "*"),
        ],
    ),
]
USERS: dict[str, Sequence[User]] = {
    HUB: [*_LINKS, *_CLIENTS],
    **{name: [User(DEPARTURES, grants=[(["put"], "queue", REMOTE)])] for name in AIRPORTS},
}
USERS_TOTAL = sum(len([ADMIN, *users]) for users in USERS.values())
