package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	stdrpc "net/rpc"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/rpc"
	"berth/structs"
)

// closed has the files and the connections of a cluster that speaks TLS. Its servers prefer TLS and do not
// require it: they would reject the plugins of package shape, which no task runs.
type closed struct {
	dir  string
	keys *peertls.Keys
}

// newClosed makes an authority and a certificate in a directory.
func newClosed(dir string) (*closed, error) {
	now := time.Now()
	authority, err := pki.NewAuthority(structs.DefaultRegion, now, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	cert, key, err := authority.Issue(pki.Request{
		Identity: pki.Identity{
			Region: structs.DefaultRegion,
			Role:   pki.RoleServer,
			ID:     "bench",
		},
		From: now,
		Life: time.Hour,
	})
	if err != nil {
		return nil, err
	}
	c := &closed{dir: dir}
	err = errors.Join(
		os.WriteFile(c.path("ca.pem"), authority.CertPEM(), 0o600),
		os.WriteFile(c.path("cert.pem"), cert, 0o600),
		os.WriteFile(c.path("key.pem"), key, 0o600),
	)
	if err != nil {
		return nil, err
	}
	c.keys, err = peertls.Open(peertls.Config{
		Mode:     peertls.ModeRequire,
		CAFile:   c.path("ca.pem"),
		CertFile: c.path("cert.pem"),
		KeyFile:  c.path("key.pem"),
	}, structs.DefaultRegion, pki.RoleServer, hclog.NewNullLogger())
	return c, err
}

func (c *closed) path(name string) string { return filepath.Join(c.dir, name) }

// settings returns the block of an agent, for nil the block of an agent without TLS.
func (c *closed) settings() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("tls {\n mode = \"prefer\"\n ca_file = %q\n cert_file = %q\n key_file = %q\n}\n",
		c.path("ca.pem"), c.path("cert.pem"), c.path("key.pem"))
}

// dialer returns how a load connects to the servers. With TLS its connections resume sessions.
func (s servers) dialer() rpc.Dialer {
	if s.tls == nil {
		return rpc.Dial
	}
	return rpc.SecureDialer(rpc.Dial, s.tls.keys.Client(peertls.Roles(pki.RoleServer)), false)
}

// anewDialer is dialer for connections that resume no session.
func (s servers) anewDialer() rpc.Dialer {
	if s.tls == nil {
		return rpc.Dial
	}
	anew := func(conn *peertls.Conn) *tls.Config {
		config := s.tls.keys.Client(peertls.Roles(pki.RoleServer))(conn)
		config.ClientSessionCache = nil
		return config
	}
	return rpc.SecureDialer(rpc.Dial, anew, false)
}

// reconnects is the number of nodes that connect anew.
const reconnects = 5000

// result is one number of a round: a rate, or the CPU time of the servers for an operation in microseconds.
type result struct {
	what  string
	value float64
}

// tlsMode measures servers with TLS and without in turns: `berth-bench tls`.
func tlsMode(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("tls", flag.ContinueOnError)
	program := flags.String("agent", "bin/berth", "the `program` of the servers")
	number := flags.Int("servers", 1, "how many servers")
	rounds := flags.Int("rounds", 5, "how often each side is measured")
	size := flags.Int("fleet", 1000, "nodes, and as many volumes")
	each := flags.Duration("time", time.Second, "how long each operation is measured")
	err := flags.Parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-bench-tls")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	secured, err := newClosed(dir)
	if err != nil {
		return err
	}

	var sides [2][][]result // plain and TLS, by round
	for range *rounds {
		for side, security := range []*closed{nil, secured} {
			one, err := measureSide(ctx, servers{
				program: *program,
				n:       *number,
				tls:     security,
			}, *size, *each)
			if err != nil {
				return err
			}
			sides[side] = append(sides[side], one)
		}
	}
	return printSides(os.Stdout, sides)
}

// measureSide measures one cluster.
func measureSide(ctx context.Context, s servers, size int, each time.Duration) (all []result, err error) {
	f, _, err := startFleet(ctx, s, size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	for _, m := range []measure{
		{[]string{"heartbeat"}, 64, identical(heartbeat)},
		{[]string{"write claim", "release of a write claim"}, 64, claimAndRelease(structs.ClaimWrite)},
	} {
		rows, err := f.measure(m, bound{time: each})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			all = append(all,
				result{r.Operation + ", rate/s", r.Rate},
				result{r.Operation + ", leader us", r.LeaderCPU})
		}
	}
	anew, err := reconnect(f, "reconnect", s.anewDialer())
	if err != nil {
		return nil, err
	}
	resumed, err := reconnect(f, "reconnect with the session", s.dialer())
	return slices.Concat(all, anew, resumed), err
}

// reconnect has many nodes connect, each with a heartbeat. All connections stay open until the last one.
func reconnect(f *fleet, what string, dialer rpc.Dialer) ([]result, error) {
	const workers = 64
	beat, err := heartbeat(f.cfg)
	if err != nil {
		return nil, err
	}
	a := f.agents[0]
	errs := make([]error, workers)
	conns := make([][]*stdrpc.Client, workers)
	var next atomic.Int64
	var wg sync.WaitGroup
	before := cpuOf(a.pid)
	own := cpuOf(self)
	start := time.Now()
	for w := range workers {
		wg.Go(func() {
			for n := next.Add(1); n <= reconnects && errs[w] == nil; n = next.Add(1) {
				var c *stdrpc.Client
				c, errs[w] = dial(dialer, a.rpc)
				if errs[w] == nil {
					conns[w] = append(conns[w], c)
					errs[w] = beat(c, int(n))
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	server := cpuOf(a.pid) - before
	node := cpuOf(self) - own
	closeConns(slices.Concat(conns...))
	return []result{
		{what + ", rate/s", reconnects / took.Seconds()},
		{what + ", server us", float64(server.Microseconds()) / reconnects},
		{what + ", node us", float64(node.Microseconds()) / reconnects},
	}, errors.Join(errs...)
}

// self is this process.
const self = "self"

// printSides prints the medians of both sides and their ratio. A rate is better when it is larger. A short
// round may lack results, for which no operation succeeded: a line leaves such rounds out.
func printSides(to io.Writer, sides [2][][]result) error {
	t := tabwriter.NewWriter(to, 2, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tplain\tTLS\tTLS/plain")
	var told []string
	for _, round := range slices.Concat(sides[0], sides[1]) {
		for _, r := range round {
			if slices.Contains(told, r.what) {
				continue
			}
			told = append(told, r.what)
			plain, ofPlain := medianOf(sides[0], r.what)
			secured, ofTLS := medianOf(sides[1], r.what)
			if !ofPlain || !ofTLS {
				fmt.Fprintf(t, "%s\tmeasured on one side alone: give more -time\n", r.what)
				continue
			}
			fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.2f\n", r.what, plain, secured, secured/plain)
		}
	}
	return t.Flush()
}

// medianOf returns the median of the results with a name. It returns false if no round has one.
func medianOf(rounds [][]result, what string) (float64, bool) {
	var values []float64
	for _, round := range rounds {
		for _, r := range round {
			if r.what == what {
				values = append(values, r.value)
			}
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	return values[len(values)/2], true
}
