package taskconfig

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/spelling"
	"berth/structs"
	"berth/structs/nodecalls"
)

// block reads the fields of a map from a job. It collects the faults, each with the path of its field. A
// field that is absent reads as the zero value.
type block struct {
	path   string
	values map[string]any
	known  map[string]bool // the names that were asked for
	faults *[]error
	early  bool // references are not replaced yet
}

func newBlock(path string, values map[string]any, faults *[]error) *block {
	return &block{
		path:   path,
		values: values,
		known:  map[string]bool{},
		faults: faults,
	}
}

// fault notes a fault of a field, or of the block itself if the name is "".
func (b *block) fault(name, format string, args ...any) {
	path := b.path
	if name != "" {
		path += "." + name
	}
	*b.faults = append(*b.faults, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// isOpen reports whether a value cannot be checked yet: it has a reference, which the node replaces at the
// start of the task.
func (b *block) isOpen(value any) bool { return b.early && nodecalls.HasReference(value) }

// reject reports the text of a field, unless it is open.
func (b *block) reject(name, text, format string, args ...any) {
	if !b.isOpen(text) {
		b.fault(name, "%q: %s", structs.Cut(text, structs.MaxQuoted), fmt.Sprintf(format, args...))
	}
}

// take returns a field, and whether the job has it. It also makes the name known: see end.
func (b *block) take(name string) (any, bool) {
	b.known[name] = true
	v, ok := b.values[name]
	return v, ok && v != nil
}

// end reports the fields that nobody asked for.
func (b *block) end() {
	names := slices.Sorted(maps.Keys(b.known))
	for _, name := range slices.Sorted(maps.Keys(b.values)) {
		if b.known[name] {
			continue
		}
		// A name that was asked for, also in vain, is the one that a misspelt name is compared with.
		b.fault(structs.Cut(name, structs.MaxQuoted), nodecalls.UnknownField+"; %s", spelling.Hint(name, names))
	}
}

// textOf converts a value to a string; numbers and booleans read as written.
func (b *block) textOf(name string, v any) string {
	var s string
	switch v := v.(type) {
	case string:
		s = v
	case bool, int, int64, uint64:
		s = fmt.Sprint(v)
	case float64:
		s = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		b.fault(name, "expected a string, found %s", nodecalls.KindOfValue(v))
		return ""
	}

	// The kernel ends texts at such a byte, so a part would be lost.
	if strings.ContainsRune(s, 0) {
		b.fault(name, "holds a zero byte")
	}

	if len(s) > structs.MaxText {
		b.fault(name, "has %d bytes; expected at most %d", len(s), structs.MaxText)
	}

	return s
}

// text is a string of the job, "" if it is absent.
func (b *block) text(name string) string {
	v, ok := b.take(name)
	if !ok {
		return ""
	}
	return b.textOf(name, v)
}

// required is a text that must not be empty.
func (b *block) required(name, meaning string) string {
	v, ok := b.take(name)
	if !ok {
		b.fault(name, "missing; expected %s", meaning)
		return ""
	}

	before := len(*b.faults)
	s := b.textOf(name, v)
	// A fault of textOf says more than this one.
	if s == "" && len(*b.faults) == before {
		b.fault(name, "empty; expected %s", meaning)
	}

	return s
}

// oneOf is a text out of a list, or absent.
func (b *block) oneOf(name string, values ...string) string {
	s := b.text(name)
	if s != "" && !slices.Contains(values, s) {
		b.reject(name, s, "expected %s", strings.Join(values, ", "))
	}
	return s
}

// boolean is false if the field is absent.
func (b *block) boolean(name string) bool {
	v, ok := b.take(name)
	if !ok || b.isOpen(v) {
		return false
	}

	switch v := v.(type) {
	case bool:
		return v
	case string:
		// References in a job are replaced by strings.
		is, err := strconv.ParseBool(v)
		if err == nil {
			return is
		}
	}

	b.fault(name, "expected true or false, found %s", nodecalls.KindOfValue(v))
	return false
}

// number is a whole number within bounds, 0 if it is absent. A string of digits is one, because references in
// a job are replaced by strings.
func (b *block) number(name string, least, most int64) int64 {
	v, ok := b.take(name)
	if !ok || b.isOpen(v) {
		return 0
	}

	n, ok := wholeNumber(v)
	if !ok {
		b.fault(name, "expected a whole number, found %s", nodecalls.KindOfValue(v))
		return 0
	}

	if n < least || n > most {
		b.fault(name, "%d: expected a number from %d to %d", n, least, most)
		return 0
	}

	return n
}

// wholeNumber reads a number of HCL, of JSON or of a text that has replaced a reference.
func wholeNumber(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case float64:
		// A number of JSON is a float, and above this bound not every whole number is one.
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	}

	return 0, false
}

// duration is a time such as "30s", 0 if it is absent.
func (b *block) duration(name string, most time.Duration) time.Duration {
	v, ok := b.take(name)
	if !ok || b.isOpen(v) {
		return 0
	}

	s, isText := v.(string)
	d, err := time.ParseDuration(s)
	if !isText || err != nil {
		b.fault(name, "expected a duration such as \"30s\", found %s", nodecalls.KindOfValue(v))
		return 0
	}

	if d < 0 || d > most {
		b.fault(name, "%s: expected a duration up to %s", d, most)
		return 0
	}

	return d
}

// texts is a list of strings.
func (b *block) texts(name string) []string {
	v, ok := b.take(name)
	if !ok {
		return nil
	}

	list, isList := v.([]any)
	if !isList {
		b.fault(name, "expected a list of strings, found %s", nodecalls.KindOfValue(v))
		return nil
	}

	if !b.bounded(name, len(list)) {
		return nil
	}

	out := make([]string, 0, len(list))
	for i, e := range list {
		out = append(out, b.textOf(fmt.Sprintf("%s[%d]", name, i), e))
	}

	return out
}

// bounded bounds a list before it is read: each element may be a fault, and all faults are kept.
func (b *block) bounded(name string, n int) bool {
	if n > structs.MaxListed {
		b.fault(name, "has %d elements; expected at most %d", n, structs.MaxListed)
	}
	return n <= structs.MaxListed
}

// maps returns the maps of a block that may be written several times, or of a list of maps.
func (b *block) maps(name string) []map[string]any {
	v, ok := b.take(name)
	if !ok {
		return nil
	}

	var list []any
	switch v := v.(type) {
	case map[string]any:
		list = []any{v}
	case []any:
		list = v
	default:
		b.fault(name, "expected a block, found %s", nodecalls.KindOfValue(v))
	}

	if !b.bounded(name, len(list)) {
		return nil
	}

	var out []map[string]any
	for i, e := range list {
		m, isMap := e.(map[string]any)
		if !isMap {
			b.fault(fmt.Sprintf("%s[%d]", name, i), "expected a block, found %s", nodecalls.KindOfValue(e))
			continue
		}

		out = append(out, m)
	}

	return out
}

// pairs is a map of strings, written as an argument or as blocks.
func (b *block) pairs(name string) map[string]string {
	var out map[string]string
	for _, m := range b.maps(name) {
		if !b.bounded(name, len(m)) {
			return nil
		}
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if out == nil {
				out = map[string]string{}
			}
			if _, twice := out[key]; twice {
				b.fault(name, "%q is set twice", structs.Cut(key, structs.MaxQuoted))
			}
			out[key] = b.textOf(name+"."+structs.Cut(key, structs.MaxQuoted), m[key])
		}
	}

	return out
}

// one reads a block that may be written once. read is not called if it is absent.
func (b *block) one(name string, read func(*block)) {
	list := b.maps(name)
	if len(list) > 1 {
		b.fault(name, "is written %d times; expected it once", len(list))
		return
	}
	b.readEach(name, list, read)
}

// each reads a block that may be written several times.
func (b *block) each(name string, read func(*block)) {
	b.readEach(name, b.maps(name), read)
}

func (b *block) readEach(name string, list []map[string]any, read func(*block)) {
	for i, m := range list {
		path := b.path + "." + name
		if len(list) > 1 {
			path = fmt.Sprintf("%s[%d]", path, i)
		}
		inner := newBlock(path, m, b.faults)
		inner.early = b.early
		read(inner)
		inner.end()
	}
}

// unsupported reports a field that berth does not support, with the reason.
func (b *block) unsupported(name, reason string) {
	_, set := b.take(name)
	// end must not suggest the name for a misspelt one.
	delete(b.known, name)
	if set {
		b.fault(name, "%s", reason)
		b.known[name] = true
	}
}
