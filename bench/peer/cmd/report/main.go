// Command report writes the tables of docs/performance.md from the JSON files of a run. A table is between
// two markers, `<!-- store: begin -->` and `<!-- store: end -->`. The prose around them stays. A table
// without a file stays as it is.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth/bench/peer/result"
)

// section is one table of the page: its marker, its file, and how it is written.
type section struct {
	marker, file string
	write        func(path string) (string, error)
}

var sections = []section{
	{"store", "state.json", beside("row")},
	{"rpc", "rpc.json", beside("row")},
	{"list", "list.json", beside("row")},
	{"sched", "sched.json", beside("row")},
	{"e2e", "e2e.json", beside("row")},
	{"memory", "memory.json", beside("row")},
	{"capacity", "capacity.json", capacity},
	{"growth", "growth.json", growth},
	{"load", "load.json", loads},
	{"overload", "overload.json", overload},
}

func main() {
	dir := flag.String("dir", "bin/bench", "folder of the results")
	page := flag.String("page", "docs/performance.md", "the page")
	flag.Parse()
	text, err := os.ReadFile(*page)
	check(err)
	out := string(text)
	for _, s := range sections {
		table, err := s.write(filepath.Join(*dir, s.file))
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(os.Stderr, "report: %s stays as it is: there is no %s\n",
				s.marker, s.file)
			continue
		}
		check(err)
		out, err = replace(out, s.marker, table)
		check(err)
	}
	check(os.WriteFile(*page, []byte(out), 0o644))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// replace puts a table between its markers.
func replace(page, marker, table string) (string, error) {
	begin := "<!-- " + marker + ": begin -->\n"
	end := "<!-- " + marker + ": end -->"
	before, rest, ok := strings.Cut(page, begin)
	if !ok {
		return "", fmt.Errorf("the page has no marker %q", begin)
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("the page has no marker %q", end)
	}
	return before + begin + table + end + after, nil
}

// beside writes rows of both sides: row | peer | berth | ratio | rounds | wanted.
func beside(what string) func(string) (string, error) {
	return func(path string) (string, error) {
		var f result.File
		if err := result.Read(path, &f); err != nil {
			return "", err
		}
		var b strings.Builder
		fmt.Fprintf(&b, "| %s | peer | berth | ratio | of the rounds | wanted |\n|---|---:|---:|---:|---:|---:|\n",
			what)
		for _, r := range f.Rows {
			ratio, span := "-", ""
			if r.Ratio > 0 {
				ratio = times(r.Ratio)
			}
			if r.Low < r.High {
				span = number(r.Low) + " to " + times(r.High)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.Name, amount(r.Peer, r), amount(r.Berth, r), ratio,
				span, wanted(r))
		}
		return b.String() + caption(f), nil
	}
}

func wanted(r result.Row) string {
	met, any := r.Met()
	var s string
	switch {
	case !any:
		return ""
	case r.Target > 0:
		s = times(r.Target)
	case r.Inverse:
		s = "at least " + unit(r.Bound, r.Unit)
	default:
		s = "at most " + unit(r.Bound, r.Unit)
	}
	s += verdict(met)
	if ratio, met := r.BoundAsRatio(); ratio > 0 {
		s += ", as a ratio " + times(ratio) + verdict(met)
	}
	return s
}

func verdict(met bool) string {
	if met {
		return " met"
	}
	return " **not met**"
}

// caption describes the source of a table.
func caption(f result.File) string {
	rounds := "one round"
	if f.Rounds > 1 {
		rounds = fmt.Sprintf("medians of %d rounds", f.Rounds)
	}
	return fmt.Sprintf("\n*Commit %s, %s UTC, %s; the machine's load average was %.1f before and %.1f after.*\n",
		f.Commit, f.Date, rounds, f.Load[0], f.Load[1])
}

// capacity is berth alone: quantity | amount.
func capacity(path string) (string, error) {
	var f result.File
	if err := result.Read(path, &f); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| what | |\n|---|---:|\n")
	for _, r := range f.Rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r.Name, amount(r.Berth, r))
	}
	return b.String() + caption(f), nil
}
