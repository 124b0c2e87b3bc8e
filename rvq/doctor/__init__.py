"""What `rvq doctor` looks at: `checks` judge, `store` asks, `allowlist` judges a new list of hosts."""
