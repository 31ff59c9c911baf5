package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/structs"
)

// now is the clock that ages are told by.
var now = time.Now

// at shows a time given in UnixNano, "" for none.
func at(nanos int64) string {
	if nanos == 0 {
		return ""
	}
	return atTime(time.Unix(0, nanos))
}

func atTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s)", t.Local().Format(time.RFC3339), ago(t))
}

// age shows how long ago a time in UnixNano was.
func age(nanos int64) string {
	if nanos == 0 {
		return ""
	}
	return ago(time.Unix(0, nanos))
}

func ago(t time.Time) string {
	d := now().Sub(t)
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

// span shows a duration with its two largest units.
func span(d time.Duration) string {
	d = d.Round(time.Second)
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if d < u.size && u.name != "s" {
			continue
		}
		out := fmt.Sprintf("%d%s", d/u.size, u.name)
		if i+1 < len(units) {
			if rest := d % u.size / units[i+1].size; rest > 0 {
				out += fmt.Sprintf("%d%s", rest, units[i+1].name)
			}
		}
		return out
	}
	return "0s"
}

// size shows a number of bytes as the messages of the API do, "" for none.
func size(n int64) string {
	if n <= 0 {
		return ""
	}
	return structs.FormatBytes(n)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func health(b bool) string {
	if b {
		return "healthy"
	}
	return "unhealthy"
}

// healthText is a description of health, "" for one that says no more than health does.
func healthText(healthy bool, description string) string {
	if strings.EqualFold(description, health(healthy)) {
		return ""
	}
	return description
}

// count shows how many of how many.
func count(n, of int) string { return fmt.Sprintf("%d/%d", n, of) }

// keyValues shows a map in the order of its keys.
func keyValues[V any](m map[string]V) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s=%v", k, m[k]))
	}
	return strings.Join(parts, " ")
}

// problem shows the last failure of an operation, how often it failed, and when it is tried again.
func problem(e *structs.OperationError) string {
	if e == nil {
		return ""
	}
	code := cmp.Or(e.Code, string(e.Kind)) + ": "
	if strings.Contains(e.Message, code) { // a plugin's error names its code itself
		code = ""
	}
	tries := ""
	if e.Attempts > 1 {
		tries = fmt.Sprintf(" (%d attempts, the last %s)", e.Attempts, age(e.Time))
	}
	return fmt.Sprintf("%s%s%s%s", code, oneLine(e.Message), tries, nextTry(e))
}

// nextTry says when a failed operation is tried again, "" where that does not depend on time.
func nextTry(e *structs.OperationError) string {
	switch e.RetryTime {
	case 0:
		return ""
	case structs.NeverTry:
		return "; it is tried again when the plugin or the volume changes, or by berth volume retry"
	}
	left := time.Unix(0, e.RetryTime).Sub(now())
	if left < time.Second {
		return "; it is tried again now"
	}
	return "; next try in " + span(left)
}

// plural is "1 node" or "3 nodes".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// pluralAre is plural with the verb that goes with the number.
func pluralAre(n int, what string) string {
	if n == 1 {
		return plural(n, what) + " is"
	}
	return plural(n, what) + " are"
}
