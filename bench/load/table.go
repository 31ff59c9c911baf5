package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one line of the table: an operation with one size of the fleet and one number of servers.
type row struct {
	Operation               string
	Servers, Fleet, Clients int
	Ops                     int
	Rate                    float64 // a second
	P50, P99                float64 // milliseconds
	LeaderCPU, FollowerCPU  float64 // microseconds of the leader, and of each follower, per operation
	Written                 float64 // bytes written to the disk that the servers share, per operation
	Failed                  int
	Error                   string `json:",omitempty"`
}

// measure puts a load on the fleet. Operations of several kinds share the CPU time and the disk evenly,
// because a server's usage cannot be divided by kind.
func (f *fleet) measure(m measure, b bound) ([]*row, error) {
	conns, err := connect(f.agents[0].dialer, f.addresses(), min(m.clients, f.size))
	if err != nil {
		return nil, err
	}
	defer closeConns(conns)
	clients, err := m.of(f, conns)
	if err != nil {
		return nil, err
	}
	if f.cfg.max > 0 { // a bounded operation ends before the time
		b.max = f.cfg.max
		f.cfg.max = 0
	}
	leader, err := f.leader()
	if err != nil {
		return nil, err
	}
	before := f.usage()
	o := runClients(clients, b)
	after := f.usage()
	if o.succeeded() == 0 {
		return nil, fmt.Errorf("%s: of %d operations none succeeded: %w", m.names[0], o.failed, o.last)
	}
	common := row{
		Servers: len(f.agents),
		Fleet:   f.size,
		Clients: len(conns),
		Failed:  o.failed,
	}
	if now, err := f.leader(); err != nil || now != leader {
		common.Error = "the leader changed"
	}
	if o.last != nil {
		common.Error = o.last.Error()
	}
	done := float64(o.succeeded())
	common.Written = float64(after.written-before.written) / done
	for i, cpu := range before.cpu {
		used := float64((after.cpu[i] - cpu).Microseconds()) / done
		if i == leader {
			common.LeaderCPU = used
		} else {
			common.FollowerCPU += used / float64(len(before.cpu)-1)
		}
	}
	return common.perKind(m.names, o), nil
}

// perKind makes a row of each kind of operation.
func (r row) perKind(names []string, o *outcome) (rows []*row) {
	for kind, took := range o.took {
		r := r
		r.Operation = names[kind]
		r.Ops = len(took)
		r.Rate = float64(len(took)) / o.elapsed.Seconds()
		r.P50 = ms(quantile(took, .5))
		r.P99 = ms(quantile(took, .99))
		rows = append(rows, &r)
	}
	return rows
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// loadMode measures every operation at every size and number of servers: `berth-bench load`.
func loadMode(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	program := flags.String("agent", "bin/berth", "the `program` of the servers")
	numbers := flags.String("servers", "1,3", "`numbers` of servers")
	fleets := flags.String("fleets", "10,100,1000,10000,100000", "`sizes` of fleets: nodes, and as many volumes")
	each := flags.Duration("time", time.Second, "how long each operation is measured")
	file := newFile(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	file.Seconds = each.Seconds()
	sizes, err := parseNumbers(*fleets)
	if err != nil {
		return err
	}
	counts, err := parseNumbers(*numbers)
	if err != nil {
		return err
	}
	var rows []*row
	for _, n := range counts {
		for _, size := range sizes {
			some, err := measureAll(ctx, servers{program: *program, n: n}, size, *each)
			rows = append(rows, some...)
			printRows(os.Stdout, some)
			if err != nil {
				return fmt.Errorf("%d servers, a fleet of %d: %w", n, size, err)
			}
		}
	}
	return file.write(rows)
}

func measureAll(ctx context.Context, s servers, size int, each time.Duration) (rows []*row, err error) {
	f, filled, err := startFleet(ctx, s, size)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = cmp.Or(err, f.close())
	}()
	rows = append(rows, filled)
	for _, m := range measures {
		if ctx.Err() != nil {
			return rows, ctx.Err()
		}
		some, err := f.measure(m, bound{time: each})
		if err != nil {
			return rows, err
		}
		rows = append(rows, some...)
	}
	return rows, nil
}

func printRows(w io.Writer, rows []*row) {
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintln(t,
		"operation\tservers\tfleet\tclients\trate/s\tp50 ms\tp99 ms\tleader us/op\tfollower us/op\tdisk B/op\tfailed")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.0f\t%.2f\t%.2f\t%.1f\t%.1f\t%.0f\t%d %s\n", r.Operation, r.Servers,
			r.Fleet, r.Clients, r.Rate,
			r.P50, r.P99, r.LeaderCPU, r.FollowerCPU, r.Written, r.Failed, r.Error)
	}
	_ = t.Flush()
}

// parseNumbers parses a list such as "1,3".
func parseNumbers(list string) (all []int, err error) {
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no list of numbers", list)
		}
		all = append(all, n)
	}
	return all, nil
}

// file is the output of a run for the programs that make tables.
type file struct {
	path, Commit, Date string
	Load               [2]float64 // of the machine, as the kernel averages it over a minute: before and after
	Seconds            float64    // how long each load was offered
	Rows               any
}

// newFile returns a file whose settings come from two flags.
func newFile(flags *flag.FlagSet) *file {
	f := &file{
		Date: time.Now().UTC().Format(time.DateTime),
	}
	f.Load[0] = loadAverage()
	flags.StringVar(&f.path, "json", "", "also write the rows to this `file`")
	flags.StringVar(&f.Commit, "commit", "", "commit of the servers, for the file")
	return f
}

func (f *file) write(rows any) error {
	if f.path == "" {
		return nil
	}
	f.Rows, f.Load[1] = rows, loadAverage()
	text, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(f.path, append(text, '\n'), 0o644)
}
