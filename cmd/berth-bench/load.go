package main

import (
	"errors"
	"fmt"
	"net"
	stdrpc "net/rpc"
	"os"
	"slices"
	"strconv"
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

// result is what one client saw.
type result struct {
	took   []time.Duration
	failed int
	last   error
}

// run makes the operation and has all clients do it until time or count is up.
func run(c *config, prepare func(*config) (operation, error)) error {
	op, err := prepare(c)
	if err != nil || op == nil {
		return err
	}
	clients, err := connect(c)
	if err != nil {
		return err
	}
	var (
		next    atomic.Int64
		wg      sync.WaitGroup
		results = make([]result, len(clients))
		cpu     = cpuTime(c.pids)
		start   = time.Now()
		end     = start.Add(c.time)
	)
	for i, client := range clients {
		wg.Go(func() {
			defer client.Close()
			for time.Now().Before(end) {
				n := next.Add(1) - 1
				if c.max > 0 && n >= c.max || !results[i].measure(op, client, int(n)) {
					return
				}
			}
		})
	}
	wg.Wait()
	return report(c, results, time.Since(start), cpuTime(c.pids)-cpu)
}

func (r *result) measure(op operation, client *stdrpc.Client, n int) (more bool) {
	t := time.Now()
	switch err := op(client, n); {
	case errors.Is(err, errDone):
		return false
	case err != nil:
		r.failed, r.last = r.failed+1, err
	default:
		r.took = append(r.took, time.Since(t))
	}
	return true
}

// connect opens one plain connection per client.
func connect(c *config) ([]*stdrpc.Client, error) {
	addrs := strings.Split(c.rpc, ",")
	var clients []*stdrpc.Client
	for i := range c.clients {
		client, err := dial(addrs[i%len(addrs)])
		if err != nil {
			return nil, err
		}
		clients = append(clients, client)
	}
	return clients, nil
}

func dial(addr string) (*stdrpc.Client, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{rpc.ByteRPC}); err != nil {
		return nil, err
	}
	return stdrpc.NewClientWithCodec(msgpackrpc.NewCodecFromHandle(true, true, conn, codec.Handle)), nil
}

// report prints one line; it is an error when nothing succeeded.
func report(c *config, results []result, took, cpu time.Duration) error {
	var (
		all    []time.Duration
		failed int
		last   error
	)
	for _, r := range results {
		all, failed = append(all, r.took...), failed+r.failed
		if r.last != nil {
			last = r.last
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("of %d operations none succeeded: %w", failed, last)
	}
	slices.Sort(all)
	at := func(p float64) time.Duration { return all[int(float64(len(all)-1)*p)].Round(time.Microsecond) }
	fmt.Printf("%s clients=%d ops=%d rate=%.1f p50=%s p99=%s max=%s cpu=%.1fus rss=%s errors=%d", c.op, c.clients, len(all),
		float64(len(all))/took.Seconds(), at(.5), at(.99), at(1), float64(cpu.Microseconds())/float64(len(all)), memory(c.pids), failed)
	if last != nil {
		fmt.Printf(" last=%q", last)
	}
	fmt.Println()
	return nil
}

// ticksPerSecond is the unit of CPU time in /proc, on every Linux there is.
const ticksPerSecond = 100

// cpuTime is what the processes have used so far.
func cpuTime(pids string) (sum time.Duration) {
	for _, pid := range strings.Split(pids, ",") {
		b, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
		for _, f := range fields[11:13] { // user and system
			ticks, _ := strconv.Atoi(f)
			sum += time.Duration(ticks) * time.Second / ticksPerSecond
		}
	}
	return sum
}

// memory is what the processes hold.
func memory(pids string) string {
	var each []string
	for _, pid := range strings.Split(pids, ",") {
		b, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
				kb, _ := strconv.Atoi(f[1])
				each = append(each, fmt.Sprintf("%dMB", kb/1024))
			}
		}
	}
	return strings.Join(each, ",")
}
