// The DNS capture of Istio's agent on 127.0.0.53, in the namespace shop, with two Services in its registry: web.shop and
// db.shop, which is headless and has the endpoint db-0.
package main

import (
	"istio.io/istio/pkg/dns/client"
	proto "istio.io/istio/pkg/dns/proto"
)

func main() {
	server, err := client.NewLocalDNSServer("shop", "shop.svc.cluster.local", "127.0.0.53:53")
	if err != nil {
		panic(err)
	}
	server.StartDNS()
	server.UpdateLookupTable(&proto.NameTable{Table: map[string]*proto.NameTable_NameInfo{
		"web.shop.svc.cluster.local": {
			Ips: []string{"198.51.100.1"}, Registry: "Kubernetes", Shortname: "web", Namespace: "shop",
		},
		"db.shop.svc.cluster.local": {
			Ips: []string{"198.51.100.2"}, Registry: "Kubernetes", Shortname: "db", Namespace: "shop",
		},
		"db-0.db.shop.svc.cluster.local": {
			Ips: []string{"198.51.100.2"}, Registry: "Kubernetes", Shortname: "db-0.db", Namespace: "shop",
		},
	}})
	select {}
}
