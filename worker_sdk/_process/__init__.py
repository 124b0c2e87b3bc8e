"""Processes: what a fork may not do (`fork`), signals, and handlers in processes of their own.

worker: child.Child ── pipe ──► runner      runs the handler
        └─ starts ► guard ── starts ───┘    ends what the handler started, with the runner
"""
