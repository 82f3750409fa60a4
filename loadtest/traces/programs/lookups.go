// Lookups of Go programs: netgo, cgo or grpc; KIND NAME TIMES SECONDS
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// The resolver of grpc-go as a channel uses it: what it reports is what the channel connects to.
type report struct {
	found chan []string
}

func (r report) UpdateState(state resolver.State) error {
	var found []string
	for _, each := range state.Addresses {
		found = append(found, strings.TrimSuffix(each.Addr, ":50051"))
	}
	if found == nil {
		r.found <- []string{"error", "no addresses"}
	} else {
		r.found <- append([]string{"ok"}, found...)
	}
	return nil
}
func (r report) ReportError(err error)           { r.found <- []string{"error", short(err.Error())} }
func (r report) NewAddress(_ []resolver.Address) {}
func (r report) ParseServiceConfig(string) *serviceconfig.ParseResult {
	return &serviceconfig.ParseResult{}
}

// Without the addresses of sockets.
func short(text string) string {
	before, after, found := strings.Cut(text, "read udp ")
	if !found {
		before, after, found = strings.Cut(text, "read tcp ")
	}
	if found {
		_, after, _ = strings.Cut(after, ": ")
		return before + after
	}
	return text
}

func lookUp(how, kind, name string) ([]string, error) {
	background := context.Background()
	net.DefaultResolver.PreferGo = how == "netgo"
	switch kind {
	case "host":
		return net.DefaultResolver.LookupHost(background, name)
	case "txt":
		found, err := net.LookupTXT(name)
		for i := range found {
			found[i] = strings.ReplaceAll(found[i], " ", "_")
		}
		return found, err
	case "ptr":
		return net.LookupAddr(name)
	}
	_, targets, err := net.LookupSRV("", "", name)
	var found []string
	for _, each := range targets {
		found = append(found, fmt.Sprintf("%s:%d", each.Target, each.Port))
	}
	return found, err
}

// A channel that fails to connect and is used again each time.
func channel(name string, times int, pause time.Duration) {
	found := make(chan []string, 100)
	builder := resolver.Get("dns")
	resolver.Register(tapped{builder, found})
	conn, err := grpc.NewClient("dns:///"+name+":50051", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	var last []string
	for number := 0; number < times; number++ {
		if number > 0 {
			time.Sleep(pause)
		}
		fmt.Println("begin")
		os.Stdin.Read(make([]byte, 1))
		conn.Connect()
		if number == 0 {
			last = <-found
		}
		for more := true; more; {
			select {
			case last = <-found:
			default:
				more = false
			}
		}
		if conn.GetState() == connectivity.Shutdown {
			break
		}
		fmt.Println(strings.Join(last, " "))
	}
}

type tapped struct {
	resolver.Builder
	found chan []string
}

type tap struct {
	resolver.ClientConn
	found chan []string
}

func (t tapped) Build(target resolver.Target, conn resolver.ClientConn, options resolver.BuildOptions) (resolver.Resolver, error) {
	return t.Builder.Build(target, tap{conn, t.found}, options)
}

func (t tap) UpdateState(state resolver.State) error {
	report{t.found}.UpdateState(state)
	return t.ClientConn.UpdateState(state)
}

func (t tap) ReportError(err error) {
	report{t.found}.ReportError(err)
	t.ClientConn.ReportError(err)
}

func main() {
	if os.Args[1] == "version" {
		fmt.Println(runtime.Version() + ", grpc-go " + grpc.Version)
		return
	}
	how, kind, name := os.Args[1], os.Args[2], os.Args[3]
	times, _ := strconv.Atoi(os.Args[4])
	seconds, _ := strconv.ParseFloat(os.Args[5], 64)
	pause := time.Duration(seconds * float64(time.Second))
	if how == "grpc" {
		channel(name, times, pause)
		return
	}
	for number := 0; number < times; number++ {
		if number > 0 {
			time.Sleep(pause)
		}
		fmt.Println("begin")
		os.Stdin.Read(make([]byte, 1))
		found, err := lookUp(how, kind, name)
		if err != nil {
			text := err.Error()
			if wrong, ok := err.(*net.DNSError); ok {
				text = wrong.Err
			}
			fmt.Println("error", short(text))
		} else {
			fmt.Println("ok", strings.Join(found, " "))
		}
	}
}
