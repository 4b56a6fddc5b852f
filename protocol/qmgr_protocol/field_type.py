"""The types of message fields. Each is a Python type together with the check of its limits.

PROTOCOL.md, section 2, defines these types. Types that only one or two messages use are in
messages.py.
"""

from typing import Annotated, Any, TypeAlias

from qmgr_protocol import field

Id: TypeAlias = Annotated[int, field.ID]
IdOrZero: TypeAlias = Annotated[int, field.U32]
Seq: TypeAlias = Annotated[int, field.SEQ]
U8: TypeAlias = Annotated[int, field.U8]
U16: TypeAlias = Annotated[int, field.U16]
U32: TypeAlias = Annotated[int, field.U32]
U64: TypeAlias = Annotated[int, field.U64]
Flag: TypeAlias = Annotated[bool, field.flag]
Text: TypeAlias = Annotated[str, field.TEXT]
LongText: TypeAlias = Annotated[str, field.LONG_TEXT]
Name: TypeAlias = Annotated[str, field.NAME]
PreviousName: TypeAlias = Annotated[str, field.PREVIOUS_NAME]  # A page begins after this name.
Texts: TypeAlias = Annotated[list[str], field.array(100, field.TEXT)]
Names: TypeAlias = Annotated[list[str], field.NAMES]
Binaries: TypeAlias = Annotated[list[bytes], field.blobs]
Bytes16: TypeAlias = Annotated[bytes, field.exactly(16)]
Bytes24: TypeAlias = Annotated[bytes, field.exactly(24)]
UpTo16Bytes: TypeAlias = Annotated[bytes, field.binary(16)]
UpTo64Bytes: TypeAlias = Annotated[bytes, field.binary(64)]
Attributes: TypeAlias = Annotated[
    dict[str, Any],
    field.mapping(100, field.text(200), field.either(field.array(100, field.SCALAR), field.SCALAR)),
]
PageLimit: TypeAlias = Annotated[int, field.integer(1, 1_000)]
