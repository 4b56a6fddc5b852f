"""The base class of all tables of the configuration."""

import ast
import inspect
from itertools import pairwise
from textwrap import dedent

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the configuration. Its fields cannot be changed after the check."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @classmethod
    def descriptions(cls) -> dict[str, str]:
        """Returns the text under each field.

        Reads the source. pydantic could do this for each class, but each start would take longer.
        """
        found = {}
        for section in reversed(cls.__mro__):
            if not issubclass(section, Section):
                continue
            tree = ast.parse(dedent(inspect.getsource(section)))
            for field, text in pairwise(ast.walk(tree)):
                match field, text:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str() as value)),
                    ):
                        found[name] = inspect.cleandoc(value)
        return found
