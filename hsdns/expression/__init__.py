"""Expressions over a query, as `view` and `template` have them: text in, a function out.

Path: setup of a plugin -> compile_expression() -> lexer -> parser -> check -> evaluate; then Program.run() for queries.
Source: the expr language (github.com/expr-lang/expr 1.17, docs/language-definition.md), which CoreDNS 1.14.7 uses.
Rule 1: what can be known to be wrong is refused when it is compiled, with its place; the rest ends one evaluation.
Rule 2: an evaluation ends: it has a budget of steps, and regular expressions take linear time.
Rule 3: no clock, no chance, no IO: an expression depends on the values that it is given.
"""
