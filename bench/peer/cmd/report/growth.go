package main

import (
	"fmt"
	"strings"

	"berth/bench/peer/result"
)

// mostGrowth is the target of every path except references, by wall time.
const mostGrowth = 2

// growth puts the sizes of a path next to each other: time and CPU, then the quantities that grow with them.
func growth(path string) (string, error) {
	var f result.File
	if err := result.Read(path, &f); err != nil {
		return "", err
	}
	paths := distinctIn(f.Rows, func(r result.Row) string { return pathOf(r) })
	of := func(path string) (rows []result.Row) {
		for _, r := range f.Rows {
			if pathOf(r) == path {
				rows = append(rows, r)
			}
		}
		return rows
	}
	var b strings.Builder
	b.WriteString("| path | 10 | 100 | 1,000 | 10,000 | 100,000 | from 10 to 100,000 | at most 2x |" +
		" peer at 10 / 1,000 / 10,000 |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---|---|\n")
	for _, name := range paths {
		b.WriteString(timesLine(name, of(name)))
	}
	b.WriteString("\nAllocations of memory and bytes per operation," +
		" and how often the collector ran while it was measured:\n\n" +
		"| path | allocations at 10 | at 100,000 | | bytes at 10 | at 100,000 | |" +
		" collections at 10 / 1,000 / 100,000 |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---|\n")
	for _, name := range paths {
		b.WriteString(memoryLine(name, of(name)))
	}
	return b.String() + caption(f), nil
}

// pathOf is a row's name without its size.
func pathOf(r result.Row) string {
	name, _, _ := strings.Cut(r.Name, ", ")
	return name
}

// timesLine is a path's microseconds, by the clock and (in parentheses) of CPU.
func timesLine(name string, rows []result.Row) string {
	s := fmt.Sprintf("| %s |", name)
	for _, r := range rows {
		s += fmt.Sprintf(" %s (%s) |",
			bare(r.Berth*r.Scale), bare(r.More["cpu-ns/unit"]*r.Scale))
	}
	first := rows[0]
	last := rows[len(rows)-1]
	grown := last.Berth / first.Berth
	verdict := "met"
	switch {
	case first.Reference:
		verdict = "reference"
	case grown > mostGrowth:
		verdict = "**missed**"
	}
	peer := "-"
	if first.Peer > 0 {
		peer = fmt.Sprintf("%s / %s / %s", bare(first.Peer*first.Scale), bare(rows[2].Peer*rows[2].Scale),
			bare(rows[3].Peer*rows[3].Scale))
	}
	return s + fmt.Sprintf(" %s (%s) | %s | %s |\n", times(grown),
		times(last.More["cpu-ns/unit"]/first.More["cpu-ns/unit"]), verdict, peer)
}

func memoryLine(name string, rows []result.Row) string {
	first := rows[0].More
	last := rows[len(rows)-1].More
	s := fmt.Sprintf("| %s |", name)
	for _, of := range []string{"allocs/unit", "B/unit"} {
		s += fmt.Sprintf(" %s | %s | %s |",
			number(first[of]), number(last[of]), times(last[of]/first[of]))
	}
	const of = "collections"
	return s + fmt.Sprintf(" %.0f / %.0f / %.0f |\n", first[of], rows[2].More[of], last[of])
}
