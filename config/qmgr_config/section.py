"""The base class of all tables of the configuration."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the configuration. Its fields cannot be changed after the check."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True
    )
