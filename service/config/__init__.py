"""Settings: takes files, environment and flags, gives one frozen object or an error that names the
setting. Every part of the service may import it.
"""
