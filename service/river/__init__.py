"""River models as a plug-in: takes the same records, gives a trainer and a follower of a shared
model. Only the roles that build parts import it.
"""
