package main

import (
	"errors"
	"fmt"
	"net"
	stdrpc "net/rpc"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	msgpackrpc "github.com/hashicorp/net-rpc-msgpackrpc/v2"

	"berth/internal/codec"
	"berth/rpc"
)

// operation does the n-th of a load; errDone ends its client.
type operation func(c *stdrpc.Client, n int) error

var errDone = errors.New("nothing is left to do")

// client does the n-th operation of a load, by its own connection, and returns its kind.
type client func(n int) (kind int, err error)

// bound ends a load.
type bound struct {
	time time.Duration
	max  int64 // operations; 0: by time alone
}

// outcome is the result of a load.
type outcome struct {
	took    [][]time.Duration // of the successful ones, by kind, in order
	elapsed time.Duration
	failed  int
	last    error
}

// drive has all clients do operations, one at a time each, until time or count is up.
func drive(clients []client, b bound) *outcome {
	var (
		next  atomic.Int64
		wg    sync.WaitGroup
		each  = make([]outcome, len(clients))
		start = time.Now()
		end   = start.Add(b.time)
	)
	for i, c := range clients {
		wg.Go(func() {
			for time.Now().Before(end) {
				n := next.Add(1) - 1
				if b.max > 0 && n >= b.max ||
					!each[i].measure(c, int(n)) {
					return
				}
			}
		})
	}
	wg.Wait()
	all := &outcome{elapsed: time.Since(start)}
	for _, o := range each {
		all.merge(&o)
	}
	for _, took := range all.took {
		slices.Sort(took)
	}
	return all
}

func (o *outcome) measure(c client, n int) (more bool) {
	t := time.Now()
	switch kind, err := c(n); {
	case errors.Is(err, errDone):
		return false
	case err != nil:
		o.failed++
		o.last = err
	default:
		o.of(kind)
		o.took[kind] = append(o.took[kind], time.Since(t))
	}
	return true
}

// of adds the counts of a kind.
func (o *outcome) of(kind int) {
	for len(o.took) <= kind {
		o.took = append(o.took, nil)
	}
}

func (o *outcome) merge(other *outcome) {
	for kind, took := range other.took {
		o.of(kind)
		o.took[kind] = append(o.took[kind], took...)
	}
	o.failed += other.failed
	if other.last != nil {
		o.last = other.last
	}
}

// done is how many operations succeeded.
func (o *outcome) done() (n int) {
	for _, took := range o.took {
		n += len(took)
	}
	return n
}

// quantile is the time that the p-th part of the sorted stays below; 0 of none.
func quantile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(float64(len(sorted)-1)*p)]
}

// run makes the operation and has all clients do it until time or count is up.
func run(c *config, prepare func(*config) (operation, error)) error {
	op, err := prepare(c)
	if err != nil || op == nil {
		return err
	}
	conns, err := connect(strings.Split(c.rpc, ","), c.clients)
	if err != nil {
		return err
	}
	defer hangUp(conns)
	cpu := cpuTime(c.pids)
	o := drive(plain(conns, op), bound{c.time, c.max})
	return report(c, o, cpuTime(c.pids)-cpu)
}

// plain are clients that all do the same, of one kind.
func plain(conns []*stdrpc.Client, op operation) []client {
	var all []client
	for _, conn := range conns {
		all = append(all, func(n int) (int, error) {
			return 0, op(conn, n)
		})
	}
	return all
}

// connect opens n plain connections, to the addresses in turn.
func connect(addrs []string, n int) ([]*stdrpc.Client, error) {
	var conns []*stdrpc.Client
	for i := range n {
		c, err := dial(addrs[i%len(addrs)])
		if err != nil {
			hangUp(conns)
			return nil, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

func hangUp(conns []*stdrpc.Client) {
	for _, c := range conns {
		_ = c.Close()
	}
}

func dial(addr string) (*stdrpc.Client, error) {
	conn, err := dialRaw(addr)
	if err != nil {
		return nil, err
	}
	return stdrpc.NewClientWithCodec(msgpackrpc.NewCodecFromHandle(true, true, conn, codec.Handle)), nil
}

// dialRaw opens a connection on which requests can be sent.
func dialRaw(addr string) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{rpc.ByteRPC}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// report prints one line; it is an error when nothing succeeded.
func report(c *config, o *outcome, cpu time.Duration) error {
	if o.done() == 0 {
		return fmt.Errorf("of %d operations none succeeded: %w", o.failed, o.last)
	}
	all := o.took[0]
	at := func(p float64) time.Duration {
		return quantile(all, p).Round(time.Microsecond)
	}
	fmt.Printf("%s clients=%d ops=%d rate=%.1f p50=%s p99=%s max=%s cpu=%.1fus rss=%s errors=%d", c.op,
		c.clients, len(all),
		float64(len(all))/o.elapsed.Seconds(), at(.5), at(.99), at(1),
		float64(cpu.Microseconds())/float64(len(all)), memory(c.pids), o.failed)
	if o.last != nil {
		fmt.Printf(" last=%q", o.last)
	}
	fmt.Println()
	return nil
}
