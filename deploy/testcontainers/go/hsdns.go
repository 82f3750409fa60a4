// Package hsdns runs hsdns, the DNS of a Kubernetes cluster, as a container of Testcontainers.
//
//	cluster, err := hsdns.Run(ctx, "manifests")
//	resolver := cluster.Resolver()
//	addresses, err := resolver.LookupHost(ctx, "web.shop.svc.cluster.local.")
package hsdns

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"

	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// Image is what Run starts.
const Image = "ghcr.io/hsdns/hsdns:0.2.0.dev0"

// Container serves the manifests of a folder, and what becomes of them.
type Container struct {
	testcontainers.Container
	token string
}

// Fault is a rule with its hits.
type Fault struct {
	Name    string `json:"name"`
	Rule    string `json:"rule"`
	State   string `json:"state"`
	Hits    int    `json:"hits"`
	Queries int    `json:"queries"`
}

// Run starts a container for the manifests of a folder; end it with testcontainers.CleanupContainer or Terminate.
func Run(ctx context.Context, manifests string, options ...testcontainers.ContainerCustomizer) (*Container, error) {
	folder, err := filepath.Abs(manifests)
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	token := hex.EncodeToString(secret)
	own := []testcontainers.ContainerCustomizer{
		testcontainers.WithCmd("serve", "-p", "53", "--control", "0.0.0.0:9160", "--source", "manifests", "/lab"),
		testcontainers.WithEnv(map[string]string{"HSDNS_CONTROL_TOKEN": token}),
		testcontainers.WithExposedPorts("53/udp", "53/tcp", "9160/tcp"),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.Binds = append(host.Binds, folder+":/lab:ro")
		}),
		testcontainers.WithWaitStrategy(wait.ForHTTP("/ready").WithPort("9160/tcp")),
	}
	made, err := testcontainers.Run(ctx, Image, append(own, options...)...)
	if err != nil {
		return nil, err
	}
	return &Container{made, token}, nil
}

// DNS is the address and port of the server on this machine, over "udp" or "tcp"; each has a port of its own.
func (c *Container) DNS(ctx context.Context, transport string) (string, error) {
	return c.PortEndpoint(ctx, "53/"+transport, "")
}

// Resolver asks the server, with Go's own resolver.
func (c *Container) Resolver() *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			address, err := c.DNS(ctx, network[:3])
			if err != nil {
				return nil, err
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
}

// AddFault adds a rule, such as "drop type AAAA times 1"; the error says what is wrong with it.
func (c *Container) AddFault(ctx context.Context, rule string) (Fault, error) {
	body, err := json.Marshal(map[string]string{"rule": rule})
	if err != nil {
		return Fault{}, err
	}
	found, err := c.ask(ctx, http.MethodPost, "", body)
	if err != nil {
		return Fault{}, err
	}
	return found[0], nil
}

// Faults are all rules with their hits.
func (c *Container) Faults(ctx context.Context) ([]Fault, error) {
	return c.ask(ctx, http.MethodGet, "", nil)
}

// RemoveFault ends a rule.
func (c *Container) RemoveFault(ctx context.Context, name string) error {
	_, err := c.ask(ctx, http.MethodDelete, "?name="+url.QueryEscape(name), nil)
	return err
}

func (c *Container) ask(ctx context.Context, method, query string, body []byte) ([]Fault, error) {
	door, err := c.PortEndpoint(ctx, "9160/tcp", "http")
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, door+"/v1/faults"+query, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	lines := json.NewDecoder(reply.Body)
	if reply.StatusCode != http.StatusOK {
		var refused struct{ Error string }
		if err := lines.Decode(&refused); err != nil {
			return nil, fmt.Errorf("%s: %s", door, reply.Status)
		}
		return nil, errors.New(refused.Error)
	}
	var found []Fault
	for {
		var each Fault
		if err := lines.Decode(&each); err == io.EOF {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		found = append(found, each)
	}
}
