"""Why a loop waits: each waited second by its cause, what cutting each would save, and how to."""
