"""What a cluster's controllers would make of manifests: pods, addresses, ClusterIPs, EndpointSlices.

Path: sources/manifests (documents) -> here -> objects, as the API server would show them.  Opens nothing and waits for
nothing; the same documents give the same objects, in whatever order they come.

    document.py     one document of a manifest, and what must hold for it
    kinds.py        the kinds that only controllers read, as structs
    workload.py     StatefulSets, Deployments ... -> pods
    address.py      pods and Services -> addresses
    cluster_ip.py   Services -> Services with a ClusterIP
    endpointslice.py  a Service and its pods -> EndpointSlices
    mirroring.py    Endpoints -> EndpointSlices
    simulation.py   all of it in order
"""
