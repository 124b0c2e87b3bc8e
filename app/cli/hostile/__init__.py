"""The hostile suite: the real dispatcher among receivers that do everything a receiver should not.

receivers   one listener a behaviour, and traps where an answer leads inwards
stage       PostgreSQL, the API and the dispatcher as processes
client      a partner and a worker in one, over HTTP
healthy     a host that does nothing wrong: how late are its webhooks meanwhile?
scenes      every behaviour at once; a black hole and 32 hosts that drip
verdict     what was seen against what must hold
"""
