"""Rules about what makes names of a cluster fail: their pages, their checks, and what they find in manifests.

Path: cli/lint.py, cli/rule.py -> here -> sources/manifest_file.py, corefile/parser.py, cluster/controllers.
It reads what is handed in, asks nothing, and needs neither a server nor a plugin.

    pages/       one Markdown file for each rule: what, why, how to see it, how to repair it, and examples
    checks/      the functions that find it, by subject
    rule.py      a page as a value
    reading.py   files -> manifests, Corefiles, silences
    judging.py   all checks over all objects -> findings
    output/      findings as text, json, sarif, junit, or annotations of GitHub
"""
