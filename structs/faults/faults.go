// Package faults collects the faults of a request or of a file into one text of bounded length.
package faults

import (
	"slices"
	"strconv"
	"strings"

	"berth/structs"
)

// Join makes one text with a line for each of the first MaxFaults faults, and the number of the others.
func Join(faults []string) string {
	var f List
	for _, line := range faults {
		f.Add(line)
	}
	return f.String()
}

// List keeps the first MaxFaults faults and counts the others.
type List struct {
	lines []string
	more  int
}

// Full reports whether further faults are only counted.
func (f *List) Full() bool {
	return len(f.lines) >= structs.MaxFaults
}

// Add adds a fault. It shows control characters as escapes.
func (f *List) Add(line string) {
	if f.Full() {
		f.more++
		return
	}
	f.lines = append(f.lines, structs.Printable(line))
}

// Lines returns the faults, followed by the number of faults that are only counted; nil for none.
func (f *List) Lines() []string {
	if f.more == 0 {
		return slices.Clone(f.lines)
	}
	return append(slices.Clone(f.lines), "and "+strconv.Itoa(f.more)+" more")
}

// String returns the lines of Lines; "" for none.
func (f *List) String() string {
	return strings.Join(f.Lines(), "\n")
}

// Err returns nil without faults, else one error of kind invalid with the lines of Lines.
func (f *List) Err() error {
	if len(f.lines) == 0 {
		return nil
	}
	return structs.Invalidf("%s", f.String())
}
