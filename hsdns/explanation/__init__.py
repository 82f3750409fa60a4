"""Why a question has the answer that it has: the chain that answers, observed, and what would have to be different.

Path: cli/explain.py -> explain.py, which asks the chain (observed.py) and replays questions over changed objects.
Rule: nothing here knows how a name is answered.  Where something has to be found out, an object or option is changed,
      and the code that serves is asked again (scene.py), so that an explanation cannot disagree with the server.
"""
