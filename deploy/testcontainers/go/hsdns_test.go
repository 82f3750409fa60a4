package hsdns

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/testcontainers/testcontainers-go"
)

func TestFault(t *testing.T) {
	ctx := context.Background()
	cluster, err := Run(ctx, "../manifests")
	if err != nil {
		t.Fatal(err)
	}
	testcontainers.CleanupContainer(t, cluster)
	look := func() ([]*net.SRV, error) {
		_, found, err := cluster.Resolver().LookupSRV(ctx, "http", "tcp", "web.shop.svc.cluster.local.")
		return found, err
	}
	if _, err := cluster.AddFault(ctx, "nxdomain type SRV times 1 named gone"); err != nil {
		t.Fatal(err)
	}
	if found, err := look(); err == nil {
		t.Fatalf("found %v", found)
	}
	found, err := look()
	if err != nil || len(found) != 1 || found[0].Port != 8080 {
		t.Fatalf("found %v, %v", found, err)
	}
	faults, err := cluster.Faults(ctx)
	if err != nil || len(faults) != 1 || faults[0].Hits != 1 || faults[0].Name != "gone" {
		t.Fatalf("%v, %v", faults, err)
	}
	if _, err := cluster.AddFault(ctx, "servfail"); err == nil || !strings.Contains(err.Error(), `did you mean "rcode SERVFAIL"?`) {
		t.Fatal(err)
	}
	if err := cluster.RemoveFault(ctx, "other"); err == nil || !strings.Contains(err.Error(), `no rule named "other" is active`) {
		t.Fatal(err)
	}
}
