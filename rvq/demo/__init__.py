"""The whole path on real input: every `.py` file of the standard library, from POST to verified webhook.

`inputs` has the files and what is true of them; `worker` is the Handler that finds it out through RVQ;
`receiver` is the partner's end of the webhook; `stack` starts everything; `story` does what the demo shows.
"""
