"""Authoritative zones: their records and the answers from them.

    master file, or a transfer from a primary
        -> zone.py           the records of a zone, indexed for lookup; immutable; catalog zones (RFC 9432)
        -> lookup.py         the answer to a question (RFC 1034 section 4.3.2), as a Reply
    master_file.py           parser for master files (RFC 1035 section 5), on dnspython
    file_zone.py             a zone of a file that is reloaded when it changes
    transfer.py              transfer from a primary (AXFR, RFC 5936), its serial, and NOTIFY to secondaries (RFC 1996)
    outgoing.py              transfer to a secondary
    secondary_zone.py        a zone of a primary that is kept up to date (RFC 1034 section 4.3.5)

The plugins `file`, `auto`, `secondary` and `transfer` read directives and combine these parts.
"""
