"""qmctl topic: ls, show, set, delete."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from qmgr_protocol.limits import TOPIC_ATTRIBUTES
from qmgr_tools.cli import completion, output, watch
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import usage
from qmgr_tools.queue import attribute as queue_attribute
from qmgr_tools.topic import name as topic_name

Topic = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC",
        show_default=False,
        autocompletion=completion.topics,
        help="The topic, with levels separated by /: flights/JFK.",
    ),
]
PANELS = {
    "Attributes": {
        "redelivery_limit": "Redeliveries of a failed publication before it is parked",
        "republish": "Condition for delivering parked publications again",
        "republish_interval_ms": "Interval of the schedule",
        "put_inhibit": "Refuse publications, or accept them",
    }
}
ATTRIBUTES = tuple(queue_attribute.column(name, TOPIC_ATTRIBUTES) for name in TOPIC_ATTRIBUTES)
COLUMNS = (
    output.whole("topic"),
    *ATTRIBUTES,
    output.Column("retained", "RETAINED", output.flag),
    output.Column("given", "GIVEN", queue_attribute.labels),
    output.count("subscriptions"),
    output.Column("first_subscriptions", "FIRST OF THEM", output.listed),
)
LISTED = ("topic", "redelivery_limit", "republish", "put_inhibit", "retained", "given")


@command(watched=True)
def ls(
    call: Call,
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
) -> None:
    """List the topics that have attributes or a retained publication.

    All other topics inherit the attributes of the topic above. GIVEN lists the attributes that are
    set for the topic itself.

    JSON: an array of objects as in "qmctl topic show", without subscriptions.

    Examples:
      qmctl topic ls
      qmctl topic ls --where retained=yes
    """
    listing = filters.Listing(COLUMNS, LISTED, columns, where or [], sort, limit)
    watch.follow(
        call,
        "list the topics",
        lambda client: listing.rows(client.admin.topic_list()),
        listing.show,
    )


@command(watched=True)
def show(call: Call, topic: Topic) -> None:
    """Show the effective attributes of a topic, and its subscribers.

    \b
    JSON: an object with
      topic
      redelivery_limit       number of redeliveries of a failed publication before
                             it is parked for the subscriber
      republish              manual, healthy (when the subscriber reports that it
                             is healthy), schedule
      republish_interval_ms  the interval of the schedule
      put_inhibit            whether publications are refused
      given                  the attributes set for the topic itself
      retained               whether it has a retained publication
      subscriptions          the number of matching subscriptions
      first_subscriptions    an array of the first 20 names

    Examples:
      qmctl topic show flights/JFK/UA
    """
    watch.follow(
        call,
        f"show topic {topic}",
        lambda client: client.admin.topic_show(topic_name.bare(topic)),
        _show,
    )


def _show(row: Mapping[str, Any]) -> None:
    output.facts(COLUMNS, row)


@command(
    options=queue_attribute.options(takes_default=True, attributes=TOPIC_ATTRIBUTES, panels=PANELS)
)
def set_(call: Call, topic: Topic, **attributes: Any) -> None:
    """Set attributes of a topic and all topics below it, immediately and permanently.

    Omitted options stay unchanged. The word "default" resets an option, so that the topic inherits
    it. The redelivery limit of a subscription overrides the limit of the topic.

    \b
    JSON: the topic as in "qmctl topic show", and
      changed  an object: [before, after] of each changed option

    Examples:
      qmctl topic set flights --redelivery-limit 3
      qmctl topic set flights/JFK --republish schedule --republish-interval 1h
      qmctl topic set flights --put-inhibit
      qmctl topic set flights/JFK --redelivery-limit default
    """
    changes = queue_attribute.given(attributes)
    if not changes:
        raise usage(
            f"cannot set topic {topic}",
            "no option is given",
            "example: --redelivery-limit 3; see --help",
        )
    topic = topic_name.bare(topic)
    with call.client(f"set topic {topic}") as client:
        before: Mapping[str, Any] = client.admin.topic_show(topic)
        given = {name: before[name] for name in before["given"]} | changes
        client.admin.topic_set(
            topic, **{key: value for key, value in given.items() if value is not None}
        )
        row: dict[str, Any] = {**client.admin.topic_show(topic)}
    changed = {
        name: [before[name], row[name]] for name in TOPIC_ATTRIBUTES if before[name] != row[name]
    }
    if call.is_json:
        output.document(row | {"changed": changed})
        return
    changes_text = "; ".join(queue_attribute.changes(changed, ATTRIBUTES))
    output.say(f"set topic {topic}: {changes_text or 'the effective attributes are unchanged'}")


@command()
def delete(
    call: Call,
    topic: Topic,
    retained: Annotated[
        bool,
        typer.Option(
            "--retained", help="Delete the retained publication instead of the attributes."
        ),
    ] = False,
) -> None:
    """Delete the attributes of a topic, which then inherits them, or its retained publication.

    JSON: an object with topic and retained (whether the publication was deleted).

    Examples:
      qmctl topic delete flights/JFK
      qmctl topic delete flights/JFK/UA --retained
    """
    topic = topic_name.bare(topic)
    what = f"the {'retained publication' if retained else 'attributes'} of topic {topic}"
    with call.client(f"delete {what}") as client:
        client.admin.topic_delete(topic, retained=retained)
    if call.is_json:
        output.document({"topic": topic, "retained": retained})
    else:
        output.say(f"deleted {what}")
