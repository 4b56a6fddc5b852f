from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.need import EACH, Kind
from qmgr_tools.auth.request_field import FieldUse, fields, spelled


def test_every_object_of_a_request_has_a_field() -> None:
    for found in OPERATIONS.values():
        if found.request is not None:
            known = fields(found.kind.__name__)
            assert known is not None
            for need in found.request.needs:
                is_named = need.kind not in (Kind.MANAGER, Kind.PEER) and need.field != EACH
                assert (need.field in known) is is_named
                assert ("manager" in known) or need.kind is not Kind.PEER
    assert fields("Queue") is None
    assert fields("LinkOpen") == {"manager": FieldUse.OPTIONAL}
    assert fields("QueueDelete") == {"queue": FieldUse.REQUIRED, "purge": FieldUse.FLAG}


def test_request_is_known_in_any_case() -> None:
    assert spelled("queuedelete") == spelled("QueueDelete") == "QueueDelete"
    assert spelled("Queue") == "Queue"
