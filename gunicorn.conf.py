"""gunicorn -c gunicorn.conf.py app.wsgi:app

Everything comes from the settings (see app/settings/settings.py); this file only gives it Gunicorn's names.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# On a reload (HUP) this file is run again, and has to find the code that is there now.
_before = getattr(sys.modules.get("app.server.hooks"), "settings", None)
for _name in [name for name in sys.modules if name == "app" or name.startswith("app.")]:
    del sys.modules[_name]

from app.server import hooks  # noqa: E402

settings = hooks.load(os.environ, _before)
hooks.choose_metrics_folder(os.environ)

bind = settings.bind
workers = settings.processes
threads = hooks.threads_of(settings)
worker_class = hooks.worker_class()
worker_connections = hooks.connections_that_fit(threads)
preload_app = False
# Workers poll: a kept connection saves them a handshake each time. Longer than nginx keeps its own (60 s).
keepalive = 75
backlog = 2048
timeout = 60
graceful_timeout = 30
worker_tmp_dir = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
# nginx in front says what the client asked for; nothing else may.
forwarded_allow_ips = "127.0.0.1,::1"
# Nobody may say by a header what the path of a request is.
forwarder_headers = ""
control_socket_disable = True
logger_class = "app.server.adapters.ForwardingLogger"
proc_name = "rvq-api"

on_starting = hooks.on_starting
on_reload = hooks.on_reload
on_exit = hooks.on_exit
pre_fork = hooks.pre_fork
post_fork = hooks.post_fork
post_worker_init = hooks.post_worker_init
pre_request = hooks.pre_request
worker_exit = hooks.worker_exit
child_exit = hooks.child_exit
