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

// operation makes the n-th request of a load. errDone ends its client.
type operation func(c *stdrpc.Client, n int) error

var errDone = errors.New("nothing is left to do")

// client makes the n-th operation of a load over its own connection, and returns the kind of the operation.
type client func(n int) (kind int, err error)

// bound ends a load after a time or a number of operations.
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

// runClients has each client make one operation after the other, until the bound is reached.
func runClients(clients []client, b bound) *outcome {
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
				if b.max > 0 && n >= b.max || !each[i].measure(c, int(n)) {
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
		o.addKind(kind)
		o.took[kind] = append(o.took[kind], time.Since(t))
	}
	return true
}

// addKind adds the results of a kind.
func (o *outcome) addKind(kind int) {
	for len(o.took) <= kind {
		o.took = append(o.took, nil)
	}
}

func (o *outcome) merge(other *outcome) {
	for kind, took := range other.took {
		o.addKind(kind)
		o.took[kind] = append(o.took[kind], took...)
	}
	o.failed += other.failed
	if other.last != nil {
		o.last = other.last
	}
}

// succeeded returns the number of successful operations.
func (o *outcome) succeeded() (n int) {
	for _, took := range o.took {
		n += len(took)
	}
	return n
}

// quantile returns the time below which the share p of the sorted times is; 0 without times.
func quantile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(float64(len(sorted)-1)*p)]
}

// run prepares an operation, has all clients make it until the bound is reached, and reports the result.
func run(c *config, prepare preparation) error {
	op, err := prepare(c)
	if err != nil || op == nil {
		return err
	}
	conns, err := connect(rpc.Dial, strings.Split(c.rpc, ","), c.clients)
	if err != nil {
		return err
	}
	defer closeConns(conns)
	cpu := cpuTime(c.pids)
	o := runClients(identicalClients(conns, op), bound{c.time, c.max})
	return report(c, o, cpuTime(c.pids)-cpu)
}

// identicalClients returns a client for each connection, all with the same operation.
func identicalClients(conns []*stdrpc.Client, op operation) []client {
	var all []client
	for _, conn := range conns {
		all = append(all, func(n int) (int, error) {
			return 0, op(conn, n)
		})
	}
	return all
}

// connect opens n connections. The addresses take turns.
func connect(dialer rpc.Dialer, addrs []string, n int) ([]*stdrpc.Client, error) {
	var conns []*stdrpc.Client
	for i := range n {
		c, err := dial(dialer, addrs[i%len(addrs)])
		if err != nil {
			closeConns(conns)
			return nil, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

func closeConns(conns []*stdrpc.Client) {
	for _, c := range conns {
		_ = c.Close()
	}
}

func dial(dialer rpc.Dialer, addr string) (*stdrpc.Client, error) {
	conn, err := dialRaw(dialer, addr)
	if err != nil {
		return nil, err
	}
	return stdrpc.NewClientWithCodec(msgpackrpc.NewCodecFromHandle(true, true, conn, codec.Handle)), nil
}

// dialTimeout bounds the opening of a connection.
const dialTimeout = 5 * time.Second

// dialRaw opens a connection on which requests can be sent.
func dialRaw(dialer rpc.Dialer, addr string) (net.Conn, error) {
	conn, err := dialer(addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{rpc.ByteRPC}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// report prints one line. It returns an error if no operation succeeded.
func report(c *config, o *outcome, cpu time.Duration) error {
	if o.succeeded() == 0 {
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
