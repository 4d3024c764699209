"""Who may do what: keys, tokens, roles and rates. It takes settings and what a request sent, and
gives a caller or the reason of a refusal; `service/http/` and the commands of keys import it.
"""
