"""What real programs send to a scripted DNS server: the traces that the models of hsdns.resolver are compared with.

__main__: which programs, which scenarios -> scene.py, a process for each scenario: namespaces, /etc, the program
    server.py: answers as the scenario says, and writes the packets down
    scenarios.txt, programs.txt, programs/: what is looked up, by which programs, and their code
"""
