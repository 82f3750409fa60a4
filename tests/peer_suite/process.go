// Package peerprocess stands in for caddy in CoreDNS's integration tests: an instance is a process.
//
// suite.py lays it over a checkout and has the tests import it instead of caddy.  Start writes the Corefile to a file
// and runs the program that PEER_SUITE_SERVER names with -conf; nothing of CoreDNS answers in the tests' own process.
package peerprocess

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/coremain" // sets the default port, the name and the version
	"github.com/coredns/coredns/plugin/metrics"
)

// What the tests use of caddy and is the same in a process.
type (
	Controller = caddy.Controller
	Input      = caddy.Input
)

const (
	server     = "PEER_SUITE_SERVER"
	startLimit = 20 * time.Second
	stopLimit  = 10 * time.Second
	started    = "CoreDNS-" // both programs print it once they serve
)

// Quiet is set by the tests; a process has its output caught in any case.
var Quiet bool

// AppName and AppVersion are what CoreDNS of this checkout answers for version.bind.
var AppName, AppVersion = caddy.AppName, caddy.AppVersion

// Who has the ports that were chosen here.
var (
	owners   = map[string]*Instance{}
	ownersOf sync.Mutex
)

// Instance is one process, or what a failed start leaves: nil.
type Instance struct {
	command  *exec.Cmd
	output   *output
	ended    chan struct{}
	corefile string            // its path
	ports    map[string]string // chosen for what was written with port 0
	keys     []key
	loading  *sync.Mutex // one reload at a time
}

// A key of a server block with its port, as far as a socket shows it.
type key struct {
	scheme, port string
}

// Start runs the server and returns when it serves; the error is what it printed instead.
func Start(input Input) (*Instance, error) {
	program := os.Getenv(server)
	if program == "" {
		return nil, errors.New(server + " is not set: it names the program that the tests are run against")
	}
	folder, err := os.MkdirTemp("", "peer-suite-")
	if err != nil {
		return nil, err
	}
	instance := &Instance{
		output:   newOutput(),
		ended:    make(chan struct{}),
		corefile: filepath.Join(folder, "Corefile"),
		ports:    map[string]string{},
		loading:  &sync.Mutex{},
	}
	if err := instance.write(input); err != nil {
		return nil, err
	}
	instance.takePorts()
	instance.command = exec.Command(program, "-conf", instance.corefile, "-dns.port", dnsserver.Port)
	instance.command.Stdout = instance.output
	instance.command.Stderr = instance.output
	if err := instance.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		instance.command.Wait()
		close(instance.ended)
	}()
	if _, err := instance.wait(0, startLimit, started); err != nil {
		instance.Stop()
		return nil, err
	}
	return instance, nil
}

// Restart reloads the process with another Corefile.
func (i *Instance) Restart(input Input) (*Instance, error) {
	i.loading.Lock()
	defer i.loading.Unlock()
	next := *i
	if err := next.write(input); err != nil {
		return nil, err
	}
	before := i.output.size()
	if err := i.command.Process.Signal(syscall.SIGUSR1); err != nil {
		return nil, err
	}
	line, err := i.wait(before, startLimit, "Reloading complete", "[ERROR] SIGUSR1: ")
	if err != nil {
		return nil, err
	}
	if strings.Contains(line, "[ERROR]") {
		return nil, errors.New(line)
	}
	return &next, nil
}

// Stop ends the process; a second call does nothing.
func (i *Instance) Stop() error {
	if i == nil {
		return nil
	}
	i.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-i.ended:
	case <-time.After(stopLimit):
		i.command.Process.Kill()
		<-i.ended
	}
	os.RemoveAll(filepath.Dir(i.corefile))
	return nil
}

// ShutdownCallbacks does nothing: a process calls its own when it ends.
func (i *Instance) ShutdownCallbacks() []error { return nil }

// takePorts ends the instance that a port was chosen for when another one asks for it by number.  Within one process
// such servers share the port until the first is stopped, which is then never asked again.
func (i *Instance) takePorts() {
	ownersOf.Lock()
	defer ownersOf.Unlock()
	for _, each := range i.keys {
		if owner := owners[each.port]; owner != nil {
			owner.Stop()
			delete(owners, each.port)
		}
	}
	for _, port := range i.ports {
		owners[port] = i
	}
}

// ServerListener has the addresses of one server.
type ServerListener struct {
	tcp, udp net.Addr
}

// Addr is the TCP address, nil where there is none.
func (s ServerListener) Addr() net.Addr { return s.tcp }

// LocalAddr is the UDP address, nil where there is none.
func (s ServerListener) LocalAddr() net.Addr { return s.udp }

// Servers reads from the kernel what the process has bound at the ports of its server blocks, in their order.
func (i *Instance) Servers() []ServerListener {
	tcp, udp := sockets(i.command.Process.Pid)
	var found []ServerListener
	for _, each := range i.keys {
		ofTCP, ofUDP := at(tcp, each.port), at(udp, each.port)
		for n := range max(len(ofTCP), len(ofUDP)) {
			var listener ServerListener
			if len(ofTCP) > 0 { // a server with several UDP sockets may have one for TCP
				listener.tcp = ofTCP[min(n, len(ofTCP)-1)]
			}
			if n < len(ofUDP) {
				listener.udp = net.UDPAddrFromAddrPort(ofUDP[n].AddrPort())
			}
			found = append(found, listener)
		}
	}
	return found
}

func at(addresses []*net.TCPAddr, port string) []*net.TCPAddr {
	return slices.DeleteFunc(slices.Clone(addresses), func(a *net.TCPAddr) bool {
		return strconv.Itoa(a.Port) != port
	})
}

// wait returns the line with one of the texts, from an offset in the output on.
func (i *Instance) wait(from int, limit time.Duration, texts ...string) (string, error) {
	deadline := time.After(limit)
	for {
		grown := i.output.next()
		printed := i.output.from(from)
		for line := range strings.Lines(printed) {
			for _, text := range texts {
				if strings.Contains(line, text) {
					return strings.TrimSpace(line), nil
				}
			}
		}
		select {
		case <-grown:
		case <-i.ended:
			return "", fmt.Errorf("the process ended: %s", strings.TrimSpace(i.output.from(from)))
		case <-deadline:
			return "", fmt.Errorf("nothing of %q after %s: %s", texts, limit, printed)
		}
	}
}

// --- Corefiles ---

var (
	token    = regexp.MustCompile(`"(?:\\.|[^"\\])*"|#[^\n]*|[{}]|[^\s{}"#][^\s]*|\n`)
	portZero = regexp.MustCompile(`^(\S*:)0$`)
)

// write puts a Corefile where the process reads it, with a free port for each port 0: the kernel's choice could not be
// told apart.  Ports that were chosen once are kept in a reload.
func (i *Instance) write(input Input) error {
	i.ports, i.keys = cloned(i.ports), nil
	depth, first, heading := 0, "", true
	var failed error
	text := token.ReplaceAllStringFunc(string(input.Body()), func(word string) string {
		switch {
		case word == "\n":
			first = ""
			return word
		case word == "{":
			depth++
			return word
		case word == "}":
			depth--
			return word
		case strings.HasPrefix(word, "#"):
			return word
		}
		if first == "" {
			first = word
		}
		heading = depth == 0 && first != "import" && !strings.HasPrefix(word, "(")
		name := word
		if heading { // all keys of one scheme with port 0 share a socket
			name = scheme(word) + "://:0"
		}
		if parts := portZero.FindStringSubmatch(word); parts != nil && (depth == 0 || first != word) {
			port, err := i.port(name)
			if err != nil {
				failed = err
			}
			word = parts[1] + port
		}
		if heading {
			i.add(strings.TrimSuffix(word, ","))
		} else if first == "prometheus" {
			metrics.ListenAddr = metricsAddress(word)
		}
		return word
	})
	if failed != nil {
		return failed
	}
	return os.WriteFile(i.corefile, []byte(text), 0o600)
}

func metricsAddress(word string) string {
	if word == "prometheus" {
		return "localhost:9153"
	}
	return word
}

func scheme(word string) string {
	name, _, found := strings.Cut(word, "://")
	if !found {
		return "dns"
	}
	return name
}

// add notes the port of a key.
func (i *Instance) add(word string) {
	each := key{scheme(word), dnsserver.Port}
	switch each.scheme {
	case "tls", "quic":
		each.port = "853"
	case "https", "https3", "grpc":
		each.port = "443"
	}
	if colon := strings.LastIndex(word, ":"); colon >= 0 {
		if _, err := strconv.Atoi(word[colon+1:]); err == nil {
			each.port = word[colon+1:]
		}
	}
	if !slices.Contains(i.keys, each) {
		i.keys = append(i.keys, each)
	}
}

// port chooses a port that is free for UDP and TCP.
func (i *Instance) port(name string) (string, error) {
	if known, ok := i.ports[name]; ok {
		return known, nil
	}
	for range 20 {
		tcp, err := net.Listen("tcp", ":0")
		if err != nil {
			return "", err
		}
		port := tcp.Addr().(*net.TCPAddr).Port
		udp, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
		tcp.Close()
		if err == nil {
			udp.Close()
			i.ports[name] = strconv.Itoa(port)
			return i.ports[name], nil
		}
	}
	return "", errors.New("no port is free for both UDP and TCP")
}

func cloned(ports map[string]string) map[string]string {
	out := make(map[string]string, len(ports))
	for name, port := range ports {
		out[name] = port
	}
	return out
}

// --- what the process prints ---

type output struct {
	mutex sync.Mutex
	text  bytes.Buffer
	grown chan struct{}
}

func newOutput() *output { return &output{grown: make(chan struct{})} }

// Write keeps the text, and shows it beside the test's own output.
func (o *output) Write(data []byte) (int, error) {
	os.Stderr.Write(data)
	o.mutex.Lock()
	defer o.mutex.Unlock()
	close(o.grown)
	o.grown = make(chan struct{})
	return o.text.Write(data)
}

// next is closed when more is printed.
func (o *output) next() <-chan struct{} {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.grown
}

func (o *output) from(at int) string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return string(o.text.Bytes()[at:])
}

func (o *output) size() int {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.Len()
}

// --- sockets, from /proc ---

const listening, unconnected = "0A", "07"

// sockets returns the addresses at which a process takes TCP connections and UDP datagrams.
func sockets(pid int) (tcp, udp []*net.TCPAddr) {
	proc := "/proc/" + strconv.Itoa(pid)
	own := map[string]bool{}
	files, _ := os.ReadDir(proc + "/fd")
	for _, file := range files {
		target, _ := os.Readlink(proc + "/fd/" + file.Name())
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, family := range []string{"", "6"} {
		tcp = append(tcp, read(proc+"/net/tcp"+family, listening, own)...)
		udp = append(udp, read(proc+"/net/udp"+family, unconnected, own)...)
	}
	return tcp, udp
}

func read(path, state string, own map[string]bool) (found []*net.TCPAddr) {
	table, _ := os.ReadFile(path)
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[3] != state || !own[fields[9]] {
			continue
		}
		host, port, _ := strings.Cut(fields[1], ":")
		number, _ := strconv.ParseUint(port, 16, 16)
		found = append(found, &net.TCPAddr{IP: address(host), Port: int(number)})
	}
	return found
}

// address reads an address as /proc has it: words of four octets, each with its last octet first.
func address(text string) net.IP {
	var ip net.IP
	for ; len(text) >= 8; text = text[8:] {
		word, _ := strconv.ParseUint(text[:8], 16, 32)
		ip = append(ip, byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
	}
	return ip
}
