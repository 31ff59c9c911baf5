package field

import (
	"slices"
	"strconv"
	"strings"

	"berth/structs"
)

// JoinFaults makes one text with a line for each of the first MaxFaults faults, and the number of the others.
func JoinFaults(faults []string) string {
	var f Faults
	for _, line := range faults {
		f.Add(line)
	}
	return f.String()
}

// Faults keeps the first MaxFaults faults and counts the others.
type Faults struct {
	lines []string
	more  int
}

// Full reports whether further faults are only counted.
func (f *Faults) Full() bool {
	return len(f.lines) >= structs.MaxFaults
}

// Add adds a fault. It shows control characters as escapes.
func (f *Faults) Add(line string) {
	if f.Full() {
		f.more++
		return
	}
	f.lines = append(f.lines, structs.Printable(line))
}

// Lines returns the faults, followed by the number of faults that are only counted; nil for none.
func (f *Faults) Lines() []string {
	if f.more == 0 {
		return slices.Clone(f.lines)
	}
	return append(slices.Clone(f.lines), "and "+strconv.Itoa(f.more)+" more")
}

// String returns the lines of Lines; "" for none.
func (f *Faults) String() string {
	return strings.Join(f.Lines(), "\n")
}

// Err returns nil without faults, else one error of kind invalid with the lines of Lines.
func (f *Faults) Err() error {
	if len(f.lines) == 0 {
		return nil
	}
	return structs.Invalidf("%s", f.String())
}
