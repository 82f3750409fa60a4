"""Rules about causes of failing names in a cluster: their pages, their checks, and their findings in manifests.

Path: lint/cli.py, lint/rule.py -> here -> sources/manifest_file.py, corefile/parser.py, cluster/controllers.  It reads
only its arguments and sends no queries; the plugins of a Corefile are set up, and not started.

    pages/       one Markdown file for each rule: what it is about, why, how to see it, how to repair it, and examples
    checks/      the functions that find it, by subject
    rule.py      a page as a value
    objects.py   manifests with their positions, and their relations
    corefile_text.py  Corefiles with their positions, and what a server makes of them
    judging.py   files -> objects and silences; all checks over all objects -> findings
    names.py     the names that the objects mean to exist, and those that fail
    diagnosis.py the checks over a cluster: what was found, has passed, or could not be checked
    output.py    findings as text, json, sarif, junit, or annotations of GitHub
"""
