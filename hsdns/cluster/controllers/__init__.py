"""A simulation of the controllers of a cluster: pods, addresses, ClusterIPs and EndpointSlices for manifests.

Path: sources/manifests (documents) -> here -> objects, as the API server would have them.  It opens no files and does
not wait.  The same documents give the same objects, in any order.

    document.py        one document of a manifest, and its validation
    kinds.py           structs of the kinds that only controllers read
    workload.py        StatefulSets, Deployments ... -> pods
    address.py         pods and Services -> addresses and ClusterIPs
    endpointslice.py   a Service and its pods, or Endpoints -> EndpointSlices
    network_policy.py  whether NetworkPolicies let a pod reach the cluster's DNS
    simulation.py      the first five in order
"""
