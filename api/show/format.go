// Package show formats the rows of the API for people. The command line and the page say the same of a thing
// because both draw what is here.
package show

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/structs"
)

// Now is the clock. Tests replace it.
var Now = time.Now

// ShortID is the form of an ID that users see and may type.
var ShortID = structs.ShortID

// Nanos formats a time in UnixNano. 0 is "".
func Nanos(nanos int64) string {
	if nanos == 0 {
		return ""
	}
	return Time(time.Unix(0, nanos))
}

// Time formats a time with its distance from now. The zero time is "".
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s)", t.Local().Format(time.RFC3339), Ago(t))
}

// Age formats the distance of a time in UnixNano from now. 0 is "".
func Age(nanos int64) string {
	if nanos == 0 {
		return ""
	}
	return Ago(time.Unix(0, nanos))
}

// Ago formats the distance of a time from now.
func Ago(t time.Time) string {
	d := Now().Sub(t)
	if d < 0 {
		return "in " + Span(-d)
	}
	return Span(d) + " ago"
}

// zeroUnits removes the units after the first one of a time.Duration if they are 0.
var zeroUnits = strings.NewReplacer("h0m0s", "h", "m0s", "m")

// Span formats a duration with its two largest units.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	d = d.Round(time.Second)
	switch {
	case d >= day:
		d = d.Truncate(time.Hour)
	case d >= time.Hour:
		d = d.Truncate(time.Minute)
	}
	rest := zeroUnits.Replace((d % day).String())
	if d < day {
		return rest
	}
	return fmt.Sprintf("%dd%s", d/day, strings.TrimPrefix(rest, "0s"))
}

// Size formats a number of bytes as the messages of the API do. 0 is "".
func Size(n int64) string {
	if n <= 0 {
		return ""
	}
	return structs.FormatBytes(n)
}

// YesNo formats a truth value.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// HealthWord formats whether something is healthy.
func HealthWord(b bool) string {
	if b {
		return "healthy"
	}
	return "unhealthy"
}

// HealthText returns a description of health, or "" if the description only repeats the health.
func HealthText(healthy bool, description string) string {
	if strings.EqualFold(description, HealthWord(healthy)) {
		return ""
	}
	return description
}

// Count formats a number and the total.
func Count(n, all int) string {
	return fmt.Sprintf("%d/%d", n, all)
}

// Sorted yields the entries of a map in the order of the keys.
func Sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// KeyValues formats a map in the order of its keys.
func KeyValues[V any](m map[string]V) string {
	var parts []string
	for key, value := range Sorted(m) {
		parts = append(parts, fmt.Sprintf("%s=%v", key, value))
	}
	return strings.Join(parts, " ")
}

// ProblemText formats the last failure of an operation, the number of attempts and the time of the next one.
func ProblemText(e *structs.OperationError) string {
	if e == nil {
		return ""
	}
	code := cmp.Or(e.Code, string(e.Kind)) + ": "
	if strings.Contains(e.Message, code) { // the error of a plugin has its code in the text
		code = ""
	}
	tries := ""
	if e.Attempts > 1 {
		tries = fmt.Sprintf(" (%d attempts, the last %s)",
			e.Attempts, Age(e.Time))
	}
	return code + OneLine(e.Message) + tries + nextTry(e)
}

// nextTry describes the next attempt of a failed operation. It returns "" if that does not depend on time.
func nextTry(e *structs.OperationError) string {
	switch e.RetryTime {
	case 0:
		return ""
	case structs.NeverTry:
		return "; it is retried when the plugin or the volume changes, or by berth volume retry"
	}
	left := time.Unix(0, e.RetryTime).Sub(Now())
	if left < time.Second {
		return "; it is retried now"
	}
	return "; next try in " + Span(left)
}

// Plural returns "1 node" or "3 nodes".
func Plural(n int, noun string) string { return structs.Counted(n, noun) }

// JoinComma joins the parts that are not empty.
func JoinComma(parts ...string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, ", ")
}

// WithDescription adds the description of a status to it, if there is one.
func WithDescription(status, description string) string {
	if description == "" {
		return status
	}
	return status + " (" + description + ")"
}

// LostMachine names in sentences the machine of a lost node, with what the user asserts of it: it must, for
// example, be off. A copy of its disk on another machine has the same name and ID, and proves nothing.
func LostMachine(n *structs.NodeDetail, must string) []string {
	lines := []string{fmt.Sprintf("It ran on %s, in boot %s: that machine must %s.", n.HTTPAddr, n.BootID, must)}
	if other := n.SecondAgent; other != nil {
		lines = append(lines, fmt.Sprintf("A second agent on %s, in boot %s, waits for its volumes. It says "+
			"nothing about the first.", other.HTTPAddr, other.BootID))
	}
	return lines
}

// OneLine replaces line breaks and other white space by single blanks.
func OneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
