"""What a missing package of an extra is refused with."""

from kaboost.service.errors import ConfigError


def missing_extra(what: str, extra: str, err: ImportError) -> ConfigError:
    """Return the refusal of what needs a package that is not installed."""
    return ConfigError(
        f"{what} needs {err.name}; run pip install '.[{extra}]' in the folder of Kaboost"
    )
