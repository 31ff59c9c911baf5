package structs

import (
	"fmt"

	"github.com/dustin/go-humanize"
)

// Counted returns a number with its noun: "1 node", or "3 nodes".
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// FormatBytes formats a size for users: rounded with its unit, and also exactly if the rounded size differs.
func FormatBytes(n int64) string {
	if n < 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	short := humanize.IBytes(uint64(n))
	back, err := humanize.ParseBytes(short)
	if err == nil && back == uint64(n) {
		return short
	}
	return fmt.Sprintf("%s (%d bytes)", short, n)
}

// PairBytes is the size of a map as the limits count it: of its keys and values.
func PairBytes(m map[string]string) (total int) {
	for k, v := range m {
		total += len(k) + len(v)
	}
	return total
}
