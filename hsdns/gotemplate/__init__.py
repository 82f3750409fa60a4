"""Templates in the language of Go's text/template: text with `{{actions}}` in, text out.

Path: setup of the `template` plugin -> Template.from_text() -> lexer -> parser; then Template.render() for queries.
Source: the documentation of Go's text/template and fmt, as of Go 1.26.
Rule 1: a template that cannot be read is refused with its place; one that fails while it is filled in gives nothing.
Rule 2: rendering ends: it has a budget of steps and of characters.
Rule 3: no clock, no chance, no IO: what comes out depends on what was put in.
"""
