"""The command line: one file for each command, with `add` for its flags and `run` for its work. VERBS is the menu.

The files import what they need when they run, so that `regard --help` does not wait for torch.
"""

VERBS = {  # in the order of the help: a command, and the file of this area that has it
    "demo": "demo",
    "tour": "tour",
    "list": "list_recipes",
    "show": "show",
    "train": "train",
    "evaluate": "evaluate",
    "predict": "predict",
    "translate": "translate",
    "classify": "classify",
    "caption": "caption",
    "generate": "generate",
    "answer": "answer",
    "read": "read",
    "report": "report",
    "export": "export",
    "studio": "studio",
    "info": "info",
}

__all__ = ["VERBS"]
