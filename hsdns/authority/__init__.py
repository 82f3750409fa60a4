"""Authoritative zones: their records and the answers from them.

    master file, or a transfer from a primary
        -> zone.py           the records of a zone, indexed for lookup; immutable
        -> lookup.py         the answer to a question (RFC 1034 section 4.3.2), as a Reply
    file_zone.py             a zone of a master file (RFC 1035 section 5, by dnspython) that is reloaded when it changes
    transfer.py              transfers from a primary and to a secondary (AXFR, RFC 5936), and NOTIFY (RFC 1996)
    secondary_zone.py        a zone of a primary that is kept up to date (RFC 1034 section 4.3.5); catalogs (RFC 9432)

The plugins `file`, `auto`, `secondary` and `transfer` read directives and combine these parts.
"""
