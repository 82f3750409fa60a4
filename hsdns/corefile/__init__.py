"""The configuration path: text -> tokens (lexer) -> tree (parser) -> typed options (properties), keys -> zones (keys).

Grammar and traps: corefile(5) of CoreDNS 1.14.7 and its Caddyfile reader.
"""
