"""The base of the errors that end a command: each is a sentence for its operator.

Path: every package -> here; cli/command.py prints the sentence, and ends the command.
"""


class OperatorError(Exception):
    """A sentence for the operator: where, what, what to do."""
