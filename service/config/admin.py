"""The section `admin` of the settings: the port that takes commands to the learner."""

from pydantic import Field, SecretStr, model_validator

from kaboost.service.config.access import is_loopback
from kaboost.service.config.section import Seconds, Section

MIN_KEY = 16  # characters


class Admin(Section):
    """The admin port of `serve` and `learner`. The commands work without it, through files."""

    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on; any other than this machine's own needs `admin.key`.",
    )
    port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Port of `POST /admin/...`; 0 for any free one; without it there is none.",
    )
    key: SecretStr | None = Field(
        default=None,
        description="Key that requests must have, as `Authorization: Bearer KEY`; at least 16 "
        "characters. Set it in the environment or the secrets directory.",
    )
    page: bool = Field(
        default=False,
        description="Whether the page at `/` may send commands, through `api.port`, with the key; "
        "`admin.key` is required.",
    )
    timeout_seconds: Seconds = Field(
        default=30.0,
        description="Seconds to wait for the learner to take a command, before it is withdrawn; "
        "also on the command line.",
    )

    @model_validator(mode="after")
    def _check_key(self) -> "Admin":
        """Refuse what would let others than this machine's users change the model."""
        if self.key is not None and len(self.key.get_secret_value()) < MIN_KEY:
            raise ValueError(
                f"admin.key is shorter than {MIN_KEY} characters: make one with "
                "`openssl rand -hex 32`"
            )
        if self.port is not None and self.key is None and not is_loopback(self.host):
            raise ValueError(
                f"admin.host = {self.host} is reachable from other machines, and there is no "
                "admin.key: whoever reaches it could roll the model back; set KABOOST_ADMIN__KEY, "
                "or leave admin.host at 127.0.0.1"
            )
        if self.page and self.key is None:
            raise ValueError(
                "admin.page = true without admin.key: whoever reaches the page could roll the "
                "model back; set KABOOST_ADMIN__KEY"
            )
        return self
