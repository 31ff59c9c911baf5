package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	stdrpc "net/rpc"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"berth/bench/shape"
	"berth/structs"
	"berth/structs/event"
)

// eventSide is one way to run the same writes.
type eventSide struct {
	name   string
	silent bool // the server keeps no events
	// topics returns what the reader i of n asks for; nil: nobody reads. copies is how many of the readers get
	// an event.
	topics func(f *fleet, i, n int) []string
	copies func(n int) int
}

// eventSides has the sides in the order of a round. The first one is the base of the ratios.
var eventSides = []eventSide{
	{name: "the server keeps no events", silent: true},
	{name: "nobody reads"},
	{"each reader follows its share of the nodes", false, ownNodes, func(int) int { return 1 }},
	{"each reader follows everything", false, everything, func(n int) int { return n }},
}

// ownNodes names the nodes of one reader. Each node has one reader.
func ownNodes(f *fleet, i, n int) (topics []string) {
	for ; i < f.size; i += n {
		topics = append(topics, string(event.Instance)+":"+shape.UUID("node", i))
	}
	return append(topics, string(event.Stream)) // a gap is told, and does not end the stream
}

func everything(*fleet, int, int) []string { return []string{string(event.All)} }

// eventRow is the result of one turn.
type eventRow struct {
	Side      string
	Writes    float64 // a second
	Failed    int     // writes that were rejected or not sent in time
	P50, P99  float64 // milliseconds of a write, from when it was due
	CPU       float64 // microseconds of the server for a write, with all readers
	Delivered float64 // events a second, to all readers together
	Missed    float64 // share of the events
	Gaps      int     // how often a reader was told of missed events
	LagP50    float64 // milliseconds from the sending of a change until a reader has its event
	LagP99    float64
}

// eventBench has the settings of `berth-bench events`, and its two servers.
type eventBench struct {
	program string
	size    int
	readers int
	rounds  int
	offer
	fleets map[bool]*fleet // by silent
}

// eventsMode measures what events and their readers cost the writes of a server: `berth-bench events`.
func eventsMode(ctx context.Context, args []string) error {
	b := eventBench{fleets: map[bool]*fleet{}}
	flags := flag.NewFlagSet("events", flag.ContinueOnError)
	flags.StringVar(&b.program, "agent", "bin/berth", "the `program` of the servers")
	flags.IntVar(&b.size, "fleet", 1000, "nodes, at least as many as readers")
	flags.IntVar(&b.readers, "readers", 100, "streams of events over HTTP")
	flags.IntVar(&b.rounds, "rounds", 3, "how often each side has its turn")
	flags.Float64Var(&b.rate, "rate", 10_000, "writes that are offered in a second")
	flags.DurationVar(&b.time, "time", 20*time.Second, "duration of a turn")
	err := flags.Parse(args)
	if err != nil {
		return err
	}
	if b.readers < 1 || b.readers > min(b.size, structs.MaxFileStreams) {
		return fmt.Errorf("-readers is %d; expected 1 to the number of nodes, and at most %d",
			b.readers, structs.MaxFileStreams)
	}
	return b.run(ctx, os.Stdout)
}

// run starts a server of each kind and measures all sides in turns.
func (b *eventBench) run(ctx context.Context, to io.Writer) (err error) {
	defer func() {
		for _, f := range b.fleets {
			err = errors.Join(err, f.close())
		}
	}()
	for _, silent := range []bool{true, false} {
		f, _, err := startFleet(ctx, servers{program: b.program, n: 1, silent: silent}, b.size)
		if err != nil {
			return err
		}
		b.fleets[silent] = f
	}

	fmt.Fprintf(to, "%d readers, %.0f writes/s offered, %s each, load average %.1f\n",
		b.readers, b.rate, b.time, loadAverage())
	var rows []*eventRow
	for n := range b.rounds {
		for _, side := range eventSides {
			r, err := b.turn(ctx, side)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", n+1, side.name, err)
			}
			rows = append(rows, r)
		}
	}
	printEventRows(to, rows)
	fmt.Fprintln(to, "\nmedians")
	printEventRows(to, medianRows(rows))
	return nil
}

// turn offers the writes once. The time of the processor counts until the readers have all events.
func (b *eventBench) turn(ctx context.Context, side eventSide) (row *eventRow, err error) {
	f := b.fleets[side.silent]
	readers, err := b.openReaders(ctx, f, side)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, readers.close()) }()
	lanes, err := rpcLanes(changeOfNode)(f)
	if err != nil {
		return nil, err
	}
	defer closeLanes(lanes)

	pid := f.agents[0].pid
	before := cpuOf(pid)
	readers.start()
	a := b.offer.run(ctx, lanes)
	delivered := readers.sum()
	err = cmp.Or(ctx.Err(), a.last, readers.finish(f))
	if err != nil {
		return nil, err
	}
	done := float64(len(a.took))
	row = &eventRow{
		Side:      side.name,
		Writes:    done / a.finished.Seconds(),
		Failed:    a.unsent + a.sent - len(a.took),
		P50:       ms(quantile(a.took, .5)),
		P99:       ms(quantile(a.took, .99)),
		CPU:       float64((cpuOf(pid) - before).Microseconds()) / done,
		Delivered: float64(delivered) / a.finished.Seconds(),
	}
	if side.topics != nil {
		row.Missed = 1 - float64(readers.sum())/done/float64(side.copies(b.readers))
		row.addLag(readers)
	}
	return row, nil
}

// addLag adds the lag and the gaps of all readers.
func (r *eventRow) addLag(readers *eventReaders) {
	var lag []time.Duration
	for _, one := range readers.all {
		lag = append(lag, one.lag...)
		r.Gaps += one.gaps
	}
	slices.Sort(lag)
	r.LagP50 = ms(quantile(lag, .5))
	r.LagP99 = ms(quantile(lag, .99))
}

// eventReaders has the readers of one turn.
type eventReaders struct {
	all  []*eventReader
	errs []error
	end  context.CancelFunc
	wg   sync.WaitGroup
}

// openReaders opens the streams of a side. They begin with the next change.
func (b *eventBench) openReaders(ctx context.Context, f *fleet, side eventSide) (*eventReaders, error) {
	ctx, end := context.WithCancel(ctx)
	rs := &eventReaders{end: end}
	if side.topics == nil {
		return rs, nil
	}
	conn, err := dial(f.agents[0].dialer, f.agents[0].rpc)
	if err != nil {
		return nil, errors.Join(err, rs.close())
	}
	defer conn.Close()
	index, err := sendLast(conn, 0)
	if err != nil {
		return nil, errors.Join(err, rs.close())
	}
	for i := range b.readers {
		r, err := openReader(ctx, f.agents[0].http, i, url.Values{
			"topic": side.topics(f, i, b.readers),
			"index": {strconv.FormatUint(index+1, 10)},
		})
		if err != nil {
			return nil, errors.Join(err, rs.close())
		}
		rs.all = append(rs.all, r)
	}
	rs.errs = make([]error, len(rs.all))
	return rs, nil
}

// sendLast sends the last report of a node, by whose event a reader ends, and returns its log index.
func sendLast(conn *stdrpc.Client, node int) (index uint64, err error) {
	var resp leanResponse
	err = conn.Call(structs.NodeUpdateCSI.Name, changeOf(node, -time.Now().UnixNano()), &resp)
	return resp.Index, err
}

func (rs *eventReaders) start() {
	for i, r := range rs.all {
		rs.wg.Go(func() { rs.errs[i] = r.run() })
	}
}

// sum returns how many events the readers have.
func (rs *eventReaders) sum() (n int64) {
	for _, r := range rs.all {
		n += r.read.Load()
	}
	return n
}

// catchUp bounds the time in which the readers get the rest after the last write.
const catchUp = time.Minute

// finish ends each reader by a last report of a node that it follows, and waits for all of them.
func (rs *eventReaders) finish(f *fleet) error {
	conn, err := dial(f.agents[0].dialer, f.agents[0].rpc)
	if err != nil {
		return err
	}
	defer conn.Close()
	for i := range rs.all {
		_, err := sendLast(conn, i)
		if err != nil {
			return err
		}
	}
	late := time.AfterFunc(catchUp, rs.end)
	defer late.Stop()
	rs.wg.Wait()
	return errors.Join(rs.errs...)
}

// close ends the streams of all readers.
func (rs *eventReaders) close() error {
	rs.end()
	rs.wg.Wait()
	var errs []error
	for _, r := range rs.all {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}

// medianRows returns a row of each side with the medians of its turns, each column by itself.
func medianRows(rows []*eventRow) (medians []*eventRow) {
	for _, side := range eventSides {
		var turns []*eventRow
		for _, r := range rows {
			if r.Side == side.name {
				turns = append(turns, r)
			}
		}
		if len(turns) == 0 {
			continue
		}
		medians = append(medians, &eventRow{
			Side:      side.name,
			Writes:    middle(turns, func(r *eventRow) float64 { return r.Writes }),
			Failed:    middle(turns, func(r *eventRow) int { return r.Failed }),
			P50:       middle(turns, func(r *eventRow) float64 { return r.P50 }),
			P99:       middle(turns, func(r *eventRow) float64 { return r.P99 }),
			CPU:       middle(turns, func(r *eventRow) float64 { return r.CPU }),
			Delivered: middle(turns, func(r *eventRow) float64 { return r.Delivered }),
			Missed:    middle(turns, func(r *eventRow) float64 { return r.Missed }),
			Gaps:      middle(turns, func(r *eventRow) int { return r.Gaps }),
			LagP50:    middle(turns, func(r *eventRow) float64 { return r.LagP50 }),
			LagP99:    middle(turns, func(r *eventRow) float64 { return r.LagP99 }),
		})
	}
	return medians
}

// middle returns the median of a column.
func middle[T cmp.Ordered](rows []*eventRow, column func(*eventRow) T) T {
	var values []T
	for _, r := range rows {
		values = append(values, column(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// printEventRows prints rows. The ratio compares the time of the processor with the first row of a round.
func printEventRows(to io.Writer, rows []*eventRow) {
	t := tabwriter.NewWriter(to, 2, 0, 2, ' ', 0)
	fmt.Fprintln(t, "side\twrites/s\tfailed\tp50 ms\tp99 ms\tserver us/write\tratio\tevents/s\tmissed\tgaps\tlag p50 ms\tp99 ms")
	base := 0.0
	for _, r := range rows {
		if r.Side == eventSides[0].name {
			base = r.CPU
		}
		fmt.Fprintf(t, "%s\t%.0f\t%d\t%.2f\t%.2f\t%.1f\t%.3f\t%.0f\t%.4f\t%d\t%.1f\t%.1f\n", r.Side, r.Writes,
			r.Failed, r.P50, r.P99, r.CPU, r.CPU/base, r.Delivered, r.Missed, r.Gaps, r.LagP50, r.LagP99)
	}
	_ = t.Flush()
}
