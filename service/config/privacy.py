"""Settings of fields whose values appear nowhere but in the records themselves."""

from typing import Literal

from pydantic import Field, SecretStr

from kaboost.service.config.section import Section


class Privacy(Section):
    """Fields whose values are hidden in dead-letter reasons, logs, reports and pages."""

    fields: list[str] = Field(
        default_factory=list,
        description="Names of features, paths in the record (`customer.email`), or `id`, `label`, "
        "`timestamp`, `weight`. Everything below a field is hidden, too (docs/security.md).",
    )
    mode: Literal["drop", "hash"] = Field(
        default="drop",
        description="What stands in place of a value: `drop`: `[hidden]`; `hash`: a keyed hash, by "
        "which equal values can be recognised.",
    )
    key: SecretStr | None = Field(
        default=None,
        description="Key of the hashes; not set: a random one for each process, so that hashes of "
        "two processes differ.",
    )
