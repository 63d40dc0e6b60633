"""Wait for a state of a page whose policy allows no code from strings, as `wait_for_function` of playwright needs."""

from typing import Any

PATIENCE = 1200  # looks at the page, 50 ms apart


def until(page: Any, expression: str) -> None:
    """Wait until an expression of JavaScript is true on the page."""
    for _ in range(PATIENCE):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"the page never came to: {expression}")
