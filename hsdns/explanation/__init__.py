"""Explains answers: observes the chain that answers, and finds the changes that would give another answer.

Path: explanation/cli.py -> explain.py, which runs the observed chain (observed.py) and repeats queries over changed
objects.
Rule: nothing here reimplements how a name is answered.  To find a cause, an object or option is changed and the
      server's code answers again (scene.py), so that an explanation cannot disagree with the server.
"""
