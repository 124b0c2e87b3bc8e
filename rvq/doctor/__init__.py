"""`rvq doctor` makes `checks` of what `store` reads; `allowlist` tries a new list of webhook hosts."""
