"""Files of every version of the format, which each later version must read."""
