"""Corefile parsing: text -> words (lexer) -> tree (parser) -> typed options (properties), keys -> zones (keys).

Source: corefile(5) of CoreDNS 1.14.7 and its Caddyfile parser.
"""
