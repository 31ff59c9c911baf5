package main

import (
	"fmt"
	"slices"
	"strings"

	"berth/bench/peer/result"
)

// load is a row as `berth-bench load` writes it.
type load struct {
	Operation                       string
	Servers, Fleet, Clients         int
	Rate, P50, P99                  float64
	LeaderCPU, FollowerCPU, Written float64
	Failed                          int
	Error                           string
}

// loads is a table for each number of servers: an operation's rates by the size of the fleet, and the rest at
// the largest.
func loads(path string) (string, error) {
	var f struct {
		result.File
		Rows    []load
		Seconds float64
	}
	if err := result.Read(path, &f); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, servers := range distinct(f.Rows, func(r load) int { return r.Servers }) {
		rows := slices.DeleteFunc(slices.Clone(f.Rows), func(r load) bool { return r.Servers != servers })
		fleets := distinct(rows, func(r load) int { return r.Fleet })
		largest := thousands(float64(fleets[len(fleets)-1]))
		fmt.Fprintf(&b, "%s:\n\n| operation | clients |", map[bool]string{
			true:  "One server",
			false: fmt.Sprint(servers, " servers"),
		}[servers == 1])
		for _, n := range fleets {
			fmt.Fprintf(&b, " %s nodes |", thousands(float64(n)))
		}
		fmt.Fprintf(&b, " p50, p99 at %s | leader's CPU at %s, %s | each follower's | to disk |\n",
			largest, thousands(float64(fleets[0])), largest)
		fmt.Fprintf(&b, "|---|---:|%s---:|---:|---:|---:|\n", strings.Repeat("---:|", len(fleets)))
		for _, name := range distinctIn(rows, func(r load) string { return r.Operation }) {
			b.WriteString(loadLine(slices.DeleteFunc(slices.Clone(rows),
				func(r load) bool { return r.Operation != name }), fleets))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "*Commit %s, %s UTC, one run, each operation for %g s;"+
		" the machine's load average was %.1f before and %.1f after.*\n",
		f.Commit, f.Date, f.Seconds, f.Load[0], f.Load[1])
	return b.String(), nil
}

// loadLine is one operation's line, of its rows by size; of some sizes there may be none, where there was no
// time for it.
func loadLine(rows []load, fleets []int) string {
	first := rows[0]
	last := rows[len(rows)-1]
	s := fmt.Sprintf("| %s | %d |", first.Operation, last.Clients)
	for _, n := range fleets {
		i := slices.IndexFunc(rows, func(r load) bool { return r.Fleet == n })
		if i < 0 {
			s += " - |"
			continue
		}
		r, failed := rows[i], ""
		if r.Failed > 0 {
			failed = fmt.Sprintf(" (%d failed)", r.Failed)
		}
		s += fmt.Sprintf(" %s/s%s |", bare(r.Rate), failed)
	}
	follower := "-"
	if last.Servers > 1 {
		follower = unit(last.FollowerCPU, "us")
	}
	disk := "-"
	if last.Written >= 200 { // below, it is others' writes
		disk = unit(last.Written/1e3, "KB")
	}
	return s + fmt.Sprintf(" %s, %s | %s, %s | %s | %s |\n", unit(last.P50*1e3, "us"), unit(last.P99*1e3, "us"),
		unit(first.LeaderCPU, "us"), unit(last.LeaderCPU, "us"), follower, disk)
}

// strain is a row as `berth-bench overload` writes it.
type strain struct {
	Operation, What               string
	Servers                       int
	Offered, Good, Share          float64
	P50, P99                      float64
	Rejected, Advised, Failed     int
	RejectedP99, Lag, Before, Max float64
	Done                          float64
	Error                         string
}

// overload makes the table of twice the sustained load.
func overload(path string) (string, error) {
	var f struct {
		result.File
		Rows    []strain
		Seconds float64
	}
	if err := result.Read(path, &f); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| operation | offered | | good answers | of what is sustained | p50, p99 of the good |" +
		" rejected (with a retry time), p99 | failed | server's memory |\n" +
		"|---|---|---:|---:|---:|---:|---:|---:|---:|\n")
	last := ""
	for _, r := range f.Rows {
		name := fmt.Sprintf("%s, %d server", r.Operation, r.Servers)
		if r.Servers > 1 {
			name += "s"
		}
		if name == last {
			name = ""
		} else {
			last = name
		}
		rejected := "-"
		if r.Rejected > 0 {
			rejected = fmt.Sprintf("%s (%s), %s", thousands(float64(r.Rejected)), thousands(float64(r.Advised)),
				unit(r.RejectedP99*1e3, "us"))
		}
		fmt.Fprintf(&b, "| %s | %s | %s/s | %s/s | %.0f %% | %s, %s | %s | %d | %.0f to %.0f MB |\n", name, r.What,
			bare(r.Offered), bare(r.Good), 100*r.Share,
			unit(r.P50*1e3, "us"), unit(r.P99*1e3, "us"), rejected, r.Failed, r.Before, r.Max)
	}
	fmt.Fprintf(&b, "\n*Commit %s, %s UTC, one run, %g s of each load;"+
		" the machine's load average was %.1f before and %.1f after.*\n",
		f.Commit, f.Date, f.Seconds, f.Load[0], f.Load[1])
	return b.String(), nil
}

func distinct(rows []load, of func(load) int) []int {
	return distinctIn(rows, of)
}

// distinctIn are the values in the order in which they come.
func distinctIn[R any, T comparable](rows []R, of func(R) T) (all []T) {
	for _, r := range rows {
		if v := of(r); !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}
