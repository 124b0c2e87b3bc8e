"""How Gunicorn serves the API: hooks for its processes, and a fast worker class that may be left out."""
