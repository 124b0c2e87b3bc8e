"""`app.wsgi:app` is what Gunicorn serves. Without gunicorn.conf.py it opens connections when needed."""

from __future__ import annotations

import os

from app.api import create_app
from app.server import hooks
from app.settings import load_settings

settings = load_settings(os.environ)
app = create_app(settings, hooks.pool or hooks.make_pool(settings))
