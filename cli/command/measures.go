package command

import (
	"fmt"

	"berth/api/show"
	"berth/structs/nodecalls"
)

// StatsFlag is the option of commands that can measure what they show.
var StatsFlag = Flag{Name: "stats", Usage: "Also measure the use of resources now"}

// CheckStats rejects -stats where it would have no effect.
func CheckStats(c *Call) error {
	switch {
	case c.Bool("stats") && c.Arg(0) == "":
		return BadUsage("-stats measures one, and not a list: name it")
	case c.Bool("stats") && (c.Bool("json") || c.String("t") != ""):
		return BadUsage("-stats excludes -json and -t; the paths /v1/client of the HTTP API have the numbers")
	}
	return nil
}

// MiB formats bytes in MiB.
func MiB(bytes uint64) string {
	return fmt.Sprintf("%d MiB", bytes>>20)
}

// Percent formats a number of hundredths.
func Percent(share float64) string {
	return fmt.Sprintf("%.1f %%", share)
}

// StatText formats one statistic.
func StatText(v *nodecalls.StatValue) string {
	switch {
	case v == nil:
		return ""
	case v.IntNumeratorVal != nil && v.IntDenominatorVal != nil:
		return fmt.Sprintf("%d/%d %s", *v.IntNumeratorVal, *v.IntDenominatorVal, v.Unit)
	case v.IntNumeratorVal != nil:
		return fmt.Sprintf("%d %s", *v.IntNumeratorVal, v.Unit)
	case v.FloatNumeratorVal != nil && v.FloatDenominatorVal != nil:
		return fmt.Sprintf("%g/%g %s", *v.FloatNumeratorVal, *v.FloatDenominatorVal, v.Unit)
	case v.FloatNumeratorVal != nil:
		return fmt.Sprintf("%g %s", *v.FloatNumeratorVal, v.Unit)
	case v.StringVal != nil:
		return *v.StringVal
	case v.BoolVal != nil:
		return show.YesNo(*v.BoolVal)
	}
	return ""
}
