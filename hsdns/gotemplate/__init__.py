"""Implementation of Go's text/template: text with `{{actions}}` in, text out.

Path: setup of the `template` plugin -> Template.from_text() -> lexer -> parser; then Template.render() per query.
Source: the documentation of Go's text/template and fmt, as of Go 1.26.
Rule 1: an invalid template is refused with the position of the error; an error during rendering gives no output.
Rule 2: rendering ends: it has a budget of steps and of characters.
Rule 3: no clock, no randomness, no I/O: the output depends on the data passed in.
"""
