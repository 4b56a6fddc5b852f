"""The base of all tables of the configuration."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """The base of all tables of the configuration."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True
    )
