package main

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type client struct {
	c    net.Conn
	r    *rpc.Client
	addr string
}

func dial(addr string) *client {
	c, err := net.Dial("tcp", addr)
	check(err)
	_, err = c.Write([]byte{0x01}) // RpcNomad
	check(err)
	return &client{
		c:    c,
		addr: addr,
		r:    rpc.NewClientWithCodec(codecOf(c)),
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func addrOf(i int) string {
	a := strings.Split(*addrs, ",")
	return a[i%len(a)]
}

// idxReply decodes only the index of a reply, so that the client costs little CPU.
type idxReply struct {
	Index uint64
}

func cpuTicks() float64 {
	if *pids == "" {
		return 0
	}
	var t float64
	for _, p := range strings.Split(*pids, ",") {
		b, err := os.ReadFile("/proc/" + p + "/stat")
		if err != nil {
			continue
		}
		s := string(b)
		f := strings.Fields(s[strings.LastIndexByte(s, ')')+2:])
		u, _ := strconv.ParseFloat(f[11], 64)
		k, _ := strconv.ParseFloat(f[12], 64)
		t += (u + k) / 100
	}
	return t
}

func rss() string {
	if *pids == "" {
		return "-"
	}
	var out []string
	for _, p := range strings.Split(*pids, ",") {
		b, _ := os.ReadFile("/proc/" + p + "/status")
		for _, l := range strings.Split(string(b), "\n") {
			if strings.HasPrefix(l, "VmRSS:") {
				kb, _ := strconv.Atoi(strings.Fields(l)[1])
				out = append(out, fmt.Sprintf("%dMB", kb/1024))
			}
		}
	}
	return strings.Join(out, ",")
}

// errDone ends a client without an error.
var errDone = errors.New("done")

// run has *conc clients make the requests of an operation. n counts the requests of all clients.
func run(name string, request func(c *client, n int64) error) {
	var (
		wg        sync.WaitGroup
		counter   atomic.Int64
		errs      atomic.Int64
		latencies = make([][]time.Duration, *conc)
		stop      atomic.Bool
		last      atomic.Value
	)
	clients := make([]*client, *conc)
	for i := range clients {
		clients[i] = dial(addrOf(i))
	}
	cpu0 := cpuTicks()
	t0 := time.Now()
	time.AfterFunc(*dur, func() { stop.Store(true) })
	for w := range *conc {
		wg.Go(func() {
			for !stop.Load() {
				n := counter.Add(1) - 1
				if *maxOps > 0 && n >= *maxOps {
					return
				}
				t := time.Now()
				err := request(clients[w], n)
				if err == errDone {
					return
				}
				if err != nil {
					errs.Add(1)
					last.Store(err.Error())
					continue
				}
				latencies[w] = append(latencies[w], time.Since(t))
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(t0)
	cpu := cpuTicks() - cpu0
	for _, c := range clients {
		c.r.Close()
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	fmt.Printf("%-10s %-12s c=%-4d ", *label, name, *conc)
	if len(all) == 0 {
		fmt.Printf("NO OPS errs=%d last=%v\n", errs.Load(), last.Load())
		return
	}
	printRate(all, elapsed, cpu)
	fmt.Printf(" errs=%d rss=%s", errs.Load(), rss())
	if e := last.Load(); e != nil {
		fmt.Printf(" lasterr=%v", e)
	}
	fmt.Println()
}

// printRate prints the rate and the latencies of successful requests, and the CPU time of the servers for
// each.
func printRate(latencies []time.Duration, elapsed time.Duration, cpu float64) {
	count := float64(len(latencies))
	quantile := func(p float64) time.Duration {
		return latencies[int((count-1)*p)].Round(time.Microsecond)
	}
	fmt.Printf("ops=%-7d %9.1f op/s p50=%-10s p99=%-10s max=%-10s srvcpu=%.0fus/op",
		len(latencies), count/elapsed.Seconds(), quantile(.5), quantile(.99), quantile(1), cpu*1e6/count)
}
