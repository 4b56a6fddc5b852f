"""The outline of a long record: the record without the body of its message, which is elsewhere."""


class Outline(bytes):
    """The bytes of a record before the body of the message, and the UID if there is one.

    So all functions that read the head, the envelope or the UID of a record work. Its length is
    that of the whole record, and a check of the record uses its checksum.
    """

    size: int
    checksum: int  # the checksum of all bytes of the record

    def __len__(self) -> int:
        return self.size
