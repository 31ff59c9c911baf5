// Command berth-bench puts a bounded load on servers over their RPC and HTTP ports and reports the result:
// rate, latencies, and the servers' CPU time per operation. It is for loopback and test clusters: it has the
// rows of bench/shape. It has five modes:
//
//	berth-bench -rpc 127.0.0.1:4747 -op nodes -nodes 1000            one operation on running servers: one line
//	berth-bench -rpc 127.0.0.1:4747 -op claimwrite -c 64 -max 2000 -pid 4711
//	berth-bench load -agent bin/berth -servers 1,3 -fleets 10,1000   starts servers, fills them, measures all
//	berth-bench overload -agent bin/berth -only HTTP                 finds the sustained rate, offers twice
//	berth-bench events -agent bin/berth                              writes with and without readers of events
//	berth-bench tls -agent bin/berth                                 compares TLS with plain TCP
//
// The servers that it starts are separate processes with Raft on disk in a temporary folder. They end with
// the program.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// config is the command line.
type config struct {
	rpc, http  string
	op         string
	clients    int
	time       time.Duration
	max        int64
	nodes      int
	volumes    int
	allocs     int
	offset     int
	path       string
	pids       string
	allocsFile string
	httpConns  int
}

func main() {
	if len(os.Args) > 1 && modes[os.Args[1]] != nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err := modes[os.Args[1]](ctx, os.Args[2:])
		stop()
		exit(os.Args[1], err)
	}
	var c config
	flag.StringVar(&c.rpc, "rpc", "127.0.0.1:4747",
		"RPC `addresses` of the servers, comma separated; clients take turns")
	flag.StringVar(&c.http, "http", "127.0.0.1:4746", "HTTP `address`")
	flag.StringVar(&c.op, "op", "",
		"operation: "+strings.Join(slices.Sorted(maps.Keys(operations)), ", "))
	flag.IntVar(&c.clients, "c", 8, "clients, each with its own connection and one request at a time")
	flag.DurationVar(&c.time, "time", 10*time.Second, "stop after this long")
	flag.Int64Var(&c.max, "max", 0, "stop after this many operations (0: by time alone)")
	flag.IntVar(&c.nodes, "nodes", 1000, "size of the fleet")
	flag.IntVar(&c.volumes, "volumes", 10000, "number of volumes")
	flag.IntVar(&c.allocs, "allocs", 5000, "number of allocations")
	flag.IntVar(&c.offset, "offset", 0, "the first node, allocation or volume used")
	flag.StringVar(&c.path, "path", "/v1/volumes?type=csi", "path of -op http")
	flag.StringVar(&c.pids, "pid", "", "process `IDs` of the servers, comma separated, whose CPU time is reported")
	flag.StringVar(&c.allocsFile, "file", "allocs.json",
		"file in which -op allocs stores the placed allocations for the claims")
	flag.Parse()
	make, ok := operations[c.op]
	if !ok {
		flag.Usage()
		os.Exit(2)
	}
	exit(c.op, run(&c, make))
}

// modes are the modes that start their own servers.
var modes = map[string]func(context.Context, []string) error{
	"load":     loadMode,
	"overload": overloadMode,
	"events":   eventsMode,
	"tls":      tlsMode,
}

func exit(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "berth-bench: %s: %v\n", what, err)
		os.Exit(1)
	}
	os.Exit(0)
}
