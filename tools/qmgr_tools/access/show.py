"""qmctl access show: the rules that decide how a connection may log in."""

from qmgr_tools.cli import output
from qmgr_tools.cli.command import Call, command

COLUMNS = (
    output.whole("rule"),
    output.Column("from", "FROM", output.listed),
    output.Column("users", "USER", output.listed),
    output.text("tls"),
    output.Column("methods", "METHOD", output.listed),
)


@command()
def show(call: Call) -> None:
    """Show the rules that decide how a connection may log in, in their order.

    The first rule that fits a connection decides. If no rule fits, the login is refused.

    \b
    JSON: an object with
      rules     an array of objects with rule (the position), from, users, tls,
                methods, and covered_by (an earlier rule that fits all
                connections of this one, or 0)
      default   true if the configuration has no rules

    Examples:
      qmctl access show
      qmctl access show -o json
    """
    with call.client("show the rules for logins") as client:
        found = client.admin.access_rules()
    if call.is_json:
        output.document(found)
        return
    output.table(COLUMNS, found["rules"])
    if found["default"]:
        output.say("these are the default rules, because auth.access has no rules")
    for rule in found["rules"]:
        if rule["covered_by"]:
            output.say(f"rule {rule['rule']} is unreachable because of rule {rule['covered_by']}")
