"""qmctl topic: ls, show, set, rm."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.limits import TOPIC_ATTRIBUTES
from qmgr_tools.cli import completion, output, watch
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import usage
from qmgr_tools.queue import attribute as queue_attribute
from qmgr_tools.topic import name as topic_name

if TYPE_CHECKING:
    pass

Topic = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC",
        show_default=False,
        autocompletion=completion.topics,
        help="Levels with / between them: flights/JFK.",
    ),
]
PANELS = {
    "Attributes": {
        "redelivery_limit": "How often what fails comes again before it is parked",
        "republish": "When what is parked is sent once more",
        "republish_interval_ms": "How often by schedule",
        "put_inhibit": "Refuse what is published, or not",
    }
}
ATTRIBUTES = tuple(queue_attribute.column(name, TOPIC_ATTRIBUTES) for name in TOPIC_ATTRIBUTES)
COLUMNS = (
    output.whole("topic"),
    *ATTRIBUTES,
    output.Column("retained", "RETAINED", output.flag),
    output.Column("given", "GIVEN", queue_attribute.all_said),
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
    """List the topics for which something is set, or that retained a publication.

    All others have what the topic above them has. GIVEN is what is set for the topic itself.

    JSON: an array of objects: the topics, as "qmctl topic show" gives them, without subscriptions.

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
    """Show what holds for a topic, whether anything is set for it or not, and who subscribed.

    \b
    JSON: an object with
      topic
      redelivery_limit       failures after which a subscriber's copy is parked:
                             the limit and one more
      republish              manual, healthy (when the subscriber says so),
                             schedule
      republish_interval_ms  how often by schedule
      put_inhibit            whether publications are refused
      given                  which of these are set for the topic itself
      retained               whether it keeps a publication for those to come
      subscriptions          how many it fits
      first_subscriptions    an array: the names of the first 20

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
    """Set what holds for a topic and all below it; in force at once, and over restarts.

    What is not said stays as it is. The word "default" takes an option back: the topic above has it
    then. A subscription may have a redelivery limit of its own, which goes before.

    \b
    JSON: the topic, as "qmctl topic show" gives it, and
      changed  an object: [before, after] of each option that is another now

    Examples:
      qmctl topic set flights --redelivery-limit 3
      qmctl topic set flights/JFK --republish schedule --republish-interval 1h
      qmctl topic set flights --put-inhibit
      qmctl topic set flights/JFK --redelivery-limit default
    """
    changes = queue_attribute.given(attributes)
    if not changes:
        raise usage(
            f"nothing is to be set for topic {topic}",
            "no option says what",
            "as in: --redelivery-limit 3; see --help",
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
    told = "; ".join(queue_attribute.changes(changed, ATTRIBUTES))
    output.say(f"set topic {topic}: {told or 'what is in force stays as it was'}")


@command()
def rm(
    call: Call,
    topic: Topic,
    retained: Annotated[
        bool, typer.Option("--retained", help="The publication that it retained, instead.")
    ] = False,
) -> None:
    """Forget what is set for a topic: it has what the one above has; or what it retained.

    JSON: an object with topic and retained, whether that is what is forgotten.

    Examples:
      qmctl topic rm flights/JFK
      qmctl topic rm flights/JFK/UA --retained
    """
    topic = topic_name.bare(topic)
    what = f"what topic {topic} retained" if retained else f"what is set for topic {topic}"
    with call.client(f"forget {what}") as client:
        client.admin.topic_delete(topic, retained=retained)
    if call.is_json:
        output.document({"topic": topic, "retained": retained})
    else:
        output.say(f"forgot {what}")
