//go:build race

package scheduler

import "flag"

// The race detector makes a test of random histories ten times as slow. `make unit` tests 100 of each, without
// it. A flag on the command line has the last word.
func init() {
	err := flag.Set("rapid.checks", "40")
	if err != nil {
		panic(err)
	}
}
