package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"berth/bench/shape"
	"berth/structs"
)

// overloadCase is one operation to overload, with its lanes.
type overloadCase struct {
	name  string
	lanes lanesOf
}

// lanesOf opens the lanes of an offer.
type lanesOf func(f *fleet) ([]lane, error)

// isOvertaken reports whether a claim arrived after its release. Concurrent requests have no order, so this
// answer is correct.
func isOvertaken(err error) bool { return structs.IsKind(err, structs.KindConflict) }

// lanesPerOffer is the number of RPC connections of one offer.
const lanesPerOffer = 64

var overloadCases = []overloadCase{
	{"RPC: write claim or release", rpcLanes(func(f *fleet, n int) (request, error) {
		round := n / len(f.work.allocs)
		i := n % len(f.work.allocs)
		a := f.work.allocs[i]
		if round%2 == 0 {
			return encode(structs.CSIVolumeClaim,
				f.work.claimRequest(a, shape.VolumeID(i), structs.ClaimWrite))
		} else {
			return encode(structs.CSIVolumeUnpublish,
				f.work.releaseRequest(a, shape.VolumeID(i)))
		}
	})},
	{"RPC: node sends what changed", rpcLanes(changeOfNode)},
	{"RPC: get a volume", rpcLanes(func(f *fleet, n int) (request, error) {
		return encode(structs.CSIVolumeGet,
			&structs.CSIVolumeGetRequest{ID: shape.VolumeID(n % f.size)})
	})},
	{"RPC: list 100 volumes of all", rpcLanes(func(*fleet, int) (request, error) {
		return encode(structs.CSIVolumeList,
			&structs.CSIVolumeListRequest{QueryOptions: structs.QueryOptions{PerPage: 100}})
	})},
	{"HTTP: get a volume", httpLanes(1, getVolumeOverHTTP)},
	{"HTTP: a node's eligibility", httpLanes(2, func(f *fleet, n int) (*http.Request, error) {
		return putEligibility(n%f.size, n < f.size)
	})},
}

// changeOfNode reports a plugin instance of one node after the other. The report tells when it was made.
func changeOfNode(f *fleet, n int) (request, error) {
	return encode(structs.NodeUpdateCSI, changeOf(n%f.size, time.Now().UnixNano()))
}

// changeOf is a report of node i. Its number is in the report, and makes it differ from the others.
func changeOf(i int, number int64) *structs.NodeUpdateCSIRequest {
	return &structs.NodeUpdateCSIRequest{
		NodeID:   shape.UUID("node", i),
		SecretID: shape.UUID("secret", i),
		Upserts:  []*structs.CSIPluginInstance{shape.Instance(shape.Plugin, i, int(number))},
	}
}

func rpcLanes(newRequest func(f *fleet, n int) (request, error)) lanesOf {
	return func(f *fleet) (all []lane, err error) {
		for i := range lanesPerOffer {
			l, err := openLane(f.agents[i%len(f.agents)].rpc, func(n int) (request, error) {
				return newRequest(f, n)
			})
			if err != nil {
				closeLanes(all)
				return nil, err
			}
			all = append(all, l)
		}
		return all, nil
	}
}

// httpLanes makes one lane to each server. The lanes share the connections. They send a number of requests
// for each node in turn.
func httpLanes(perNode int, newRequest httpRequest) lanesOf {
	return func(f *fleet) (all []lane, err error) {
		for _, a := range f.agents {
			wire, err := render(a.http, perNode*f.size, func(n int) (*http.Request, error) {
				return newRequest(f, n)
			})
			if err != nil {
				closeLanes(all)
				return nil, err
			}
			l, err := openHTTPLane(a.http, max(1, f.cfg.httpConns/len(f.agents)), wire)
			if err != nil {
				closeLanes(all)
				return nil, err
			}
			all = append(all, l)
		}
		return all, nil
	}
}

func closeLanes(all []lane) {
	for _, l := range all {
		l.close()
	}
}

// overloadRow is one line of the table: the offer and its result.
type overloadRow struct {
	Operation   string
	Servers     int
	What        string  // sustained, twice the rate, ...
	Offered     float64 // a second
	Good        float64 // a second, answered before the end of the offering
	Share       float64 // of the sustained rate
	P50, P99    float64 // milliseconds of the good ones, from when they were due
	ServedP99   float64 // the same from when they were sent
	Rejected    int     // attempts that were answered unavailable
	Advised     int     // of those, with a Retry-After
	RejectedP99 float64 // milliseconds until a rejection
	Failed      int     // another answer, or none
	Unsent      int     // of those, the ones that were not sent in time
	Error       string  `json:",omitempty"`
	Lag         float64 // milliseconds from when a request was due until it was sent, p99
	LoadCPU     float64 // microseconds that the load program itself used for a request
	LoadBusy    float64 // share of the time with its processors in use or awaited; near 1 it is late
	Done        float64 // seconds until all were answered
	Before, Max float64 // MB of the server that leads, before and at most
}

// tester offers loads of one operation.
type tester struct {
	*fleet
	overloadCase
	leader *agent
}

// offer offers a load over new connections.
func (t *tester) offer(ctx context.Context, what string, o offer) (*overloadRow, error) {
	lanes, err := t.lanes(t.fleet)
	if err != nil {
		return nil, err
	}
	defer closeLanes(lanes)
	s := &overloadRow{
		Operation: t.name,
		Servers:   len(t.agents),
		What:      what,
		Offered:   o.rate,
		Before:    mb(residentOf(t.leader.pid)),
	}
	watched, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		s.Max = mb(peakOf(watched, t.leader.pid))
	})
	ran, waited := scheduled("self")
	a := o.run(ctx, lanes)
	s.recordOwnUsage(a, ran, waited)
	stop()
	watch.Wait()
	s.Good = float64(a.within) / o.time.Seconds()
	s.P50 = ms(quantile(a.took, .5))
	s.P99 = ms(quantile(a.took, .99))
	s.ServedP99 = ms(quantile(a.served, .99))
	s.Rejected = len(a.rejected)
	s.Advised = a.advised
	s.RejectedP99 = ms(quantile(a.rejected, .99))
	s.Failed = a.unsent + a.sent - len(a.took) - len(a.rejected)
	s.Unsent = a.unsent
	s.Lag = ms(quantile(a.lag, .99))
	s.Done = a.finished.Seconds()
	if a.last != nil {
		s.Error = a.last.Error()
	}
	return s, ctx.Err()
}

// recordOwnUsage records the CPU usage of the load program since an earlier reading.
func (s *overloadRow) recordOwnUsage(a *answers, ran, waited time.Duration) {
	r, w := scheduled("self")
	s.LoadCPU = float64((r - ran).Microseconds()) / float64(max(1, a.sent))
	s.LoadBusy = min(1, (r-ran+w-waited).Seconds()/a.finished.Seconds()/float64(runtime.GOMAXPROCS(0)))
}

func mb(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// peakOf returns the peak of the resident memory of a process until ctx ends.
func peakOf(ctx context.Context, pid string) (peak int64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		peak = max(peak, residentOf(pid))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return peak
		}
	}
}

// A rate is sustained if all requests get a good answer, none is rejected, and the slowest hundredth is
// within sustainedP99. A rate that is a fifth too high fails this within searchTime.
const (
	sustainedP99 = 250 // milliseconds
	searchTime   = 1200 * time.Millisecond
	searchSteps  = 12
	searchFactor = 1.2
)

func (s *overloadRow) sustained() bool {
	return s.Rejected == 0 && s.Failed == 0 && s.P99 <= sustainedP99
}

// findSustainedRate finds the highest sustained rate, up to one step. It doubles the rate, and goes on from
// the last good rate in steps of searchFactor. It tries a failed rate twice, because others may use the
// machine.
func (t *tester) findSustainedRate(ctx context.Context) (best float64, err error) {
	rate, step := 2000.0, 2.0
	for n, failed := 0, 0; n < searchSteps; n++ {
		s, err := t.offer(ctx, "search", offer{rate: rate, time: searchTime})
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(os.Stderr, "%s: %.0f/s offered: %.0f/s good, p99 %.1f ms, %d rejected, %d failed %s\n", t.name,
			rate, s.Good, s.P99, s.Rejected, s.Failed, s.Error)
		switch {
		case s.sustained():
			best, failed = rate, 0
			rate *= step
		case failed == 0:
			failed++
		case best == 0:
			rate, failed = rate/4, 0
		case step == searchFactor:
			return best, nil
		default: // too high: back to the last good rate, and on in small steps
			step, failed = searchFactor, 0
			rate = best * step
		}
	}
	if best == 0 {
		return 0, errors.New("no rate is sustained")
	}
	return best, nil
}

// measureOverload offers the sustained rate, twice and four times of it to clients that give up, twice of it
// to clients that retry, and half of it directly afterwards.
func (t *tester) measureOverload(ctx context.Context, during time.Duration) (rows []*overloadRow, err error) {
	best, err := t.findSustainedRate(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range []struct {
		what string
		of   float64
		offer
	}{
		{"sustained", 1, offer{time: during}},
		{"twice the rate", 2, offer{time: during}},
		{"four times the rate", 4, offer{time: during}},
		{"half the rate, directly afterwards", .5, offer{time: time.Second}},
		{"twice the rate, clients obey the retry time", 2, offer{time: during, honour: true}},
		{"half the rate, directly afterwards", .5, offer{time: time.Second}},
	} {
		l.rate = l.of * best
		s, err := t.offer(ctx, l.what, l.offer)
		if err != nil {
			return rows, err
		}
		s.Share = 1
		if len(rows) > 0 {
			s.Share = s.Good / rows[0].Good
		}
		rows = append(rows, s)
	}
	return rows, nil
}

// overloadOptions has the settings of `berth-bench overload`.
type overloadOptions struct {
	program string
	size    int
	during  time.Duration
	only    string
	conns   int
	on      *unix.CPUSet // the servers' processors
}

// overloadMode shows the effect of twice the sustained load: `berth-bench overload`.
func overloadMode(ctx context.Context, args []string) error {
	var o overloadOptions
	flags := flag.NewFlagSet("overload", flag.ContinueOnError)
	flags.StringVar(&o.program, "agent", "bin/berth", "the `program` of the servers")
	servers := flags.String("servers", "1", "`numbers` of servers")
	flags.IntVar(&o.size, "fleet", 2000, "nodes, and as many volumes")
	flags.DurationVar(&o.during, "time", 4*time.Second, "duration of each offer")
	flags.StringVar(&o.only, "only", "", "only operations with this `text` in their names")
	flags.IntVar(&o.conns, "http-conns", 512,
		"connections over HTTP, one request at a time on each; a server bounds those of one address")
	file := newFile(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	file.Seconds = o.during.Seconds()
	counts, err := parseNumbers(*servers)
	if err != nil {
		return err
	}
	theirs, ours, err := splitProcessors()
	if err == nil {
		err = pinProcess(ours)
	}
	if err != nil {
		return err
	}
	o.on = theirs
	var rows []*overloadRow
	for _, n := range counts {
		some, err := o.run(ctx, n)
		rows = append(rows, some...)
		printOverloadRows(os.Stdout, some)
		if err != nil {
			return err
		}
	}
	return file.write(rows)
}

// run offers all loads to a number of servers.
func (o *overloadOptions) run(ctx context.Context, n int) (rows []*overloadRow, err error) {
	chosen := slices.DeleteFunc(slices.Clone(overloadCases),
		func(s overloadCase) bool {
			return !strings.Contains(s.name, o.only)
		})
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no operation has %q in its name", o.only)
	}
	f, _, err := startFleet(ctx, servers{program: o.program, n: n, on: o.on}, o.size)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, f.close())
	}()
	f.cfg.httpConns = o.conns
	leader, err := f.leader()
	if err != nil {
		return nil, err
	}
	for _, s := range chosen {
		t := &tester{
			fleet:        f,
			overloadCase: s,
			leader:       f.agents[leader],
		}
		some, err := t.measureOverload(ctx, o.during)
		rows = append(rows, some...)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return rows, nil
}

func printOverloadRows(w io.Writer, rows []*overloadRow) {
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintln(t,
		"operation\tservers\tload\toffered/s\tgood/s\tshare\tp50 ms\tp99 ms\tfrom sent\trejected\tadvised\trejected p99 ms\tfailed\tunsent\tall done s\tMB before, most\tlag ms\tload's us/request, busy")
	for _, r := range rows {
		fmt.Fprintf(t,
			"%s\t%d\t%s\t%.0f\t%.0f\t%.2f\t%.1f\t%.1f\t%.1f\t%d\t%d\t%.1f\t%d\t%d\t%.1f\t%.0f, %.0f\t%.1f\t%.1f, %.2f %s\n",
			r.Operation, r.Servers, r.What, r.Offered, r.Good,
			r.Share, r.P50, r.P99, r.ServedP99, r.Rejected, r.Advised, r.RejectedP99, r.Failed, r.Unsent, r.Done,
			r.Before, r.Max, r.Lag, r.LoadCPU, r.LoadBusy, r.Error)
	}
	_ = t.Flush()
}
