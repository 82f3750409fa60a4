"""Authoritative zones: what a master file or a transfer says, and the answers that follow from it.

    master file, or a transfer from a primary
        -> zone.py           all records of a zone, in a form to be asked; never changes
        -> lookup.py         the answer to a question (RFC 1034 section 4.3.2)
        -> answering.py      the same as a Reply, with what only the rest of the server knows
    master_file.py           the text form (RFC 1035 section 5), read by dnspython
    file_zone.py             a zone of a file that is read again when it changes
    incoming.py              AXFR from a primary (RFC 5936), and its serial
    secondary_zone.py        a zone of a primary that is kept up to date (RFC 1034 section 4.3.5)
    catalog.py               what a catalog zone lists (RFC 9432)
    notify.py                NOTIFY to secondaries (RFC 1996)
    address.py               the addresses of both, as the Corefile writes them
    template.py              zone names from file names

The plugins `file`, `auto`, `secondary` and `transfer` are thin: they read directives and join these parts.
"""
