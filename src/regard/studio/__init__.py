"""The studio: a local page on which models are tried, compared and looked into. `regard studio` starts it.

It reads what `regard.api` gives and the JSON of explanations; the page itself is in `static`, plain modules without a
build step. Starlette and uvicorn come with the extra `studio` and are imported when a server starts.
"""

from regard.studio.serve import Server
from regard.studio.show import record, show, stop

__all__ = ["Server", "record", "show", "stop"]
