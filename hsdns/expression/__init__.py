"""The expression language of `view` and `template`: text compiled to a function of a query.

Path: setup of a plugin -> compile_expression() -> parser -> compiler; then Program.run() per query.
Source: the expr language (github.com/expr-lang/expr 1.17, docs/language-definition.md), which CoreDNS 1.14.7 uses.
Rule 1: syntax and type errors are reported at compilation, with their position; other errors end one evaluation.
Rule 2: every evaluation ends: it has a budget of steps, and regular expressions take linear time.
Rule 3: no clock, no randomness, no I/O: the result depends on the values passed in.
"""
