package field

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"berth/structs"
)

// CheckBytes checks the length of a text, or of several in sum.
func (f Errors) CheckBytes(name string, n, most int) {
	if n > most {
		f.Addf("%s has %d bytes; at most %d are allowed", name, n, most)
	}
}

// CheckText checks a free text.
func (f Errors) CheckText(name, s string) {
	f.CheckString(name, s, structs.MaxText)
}

// CheckString checks the bytes of a text. JSON has no other bytes than UTF-8, and no program takes a NUL.
func (f Errors) CheckString(name, s string, most int) {
	f.CheckBytes(name, len(s), most)
	f.Require(utf8.ValidString(s) && !strings.ContainsRune(s, 0), "%s must be UTF-8 without NUL", name)
}

// IsText reports whether a string is UTF-8 without NUL.
func IsText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

// BarredInName reports the characters that a volume's name must not contain (CSI spec,
// CreateVolumeRequest.name).
func BarredInName(r rune) bool {
	return r <= 0x08 || r == 0x0B || r == 0x0C ||
		r >= 0x0E && r <= 0x1F ||
		r >= 0x7F && r <= 0x9F
}

// CheckName checks a name, which appears in tables, in paths of the HTTP API and as a directory.
func (f Errors) CheckName(name, s string) {
	switch {
	case s == "":
		f.Addf("%s is required", name)
	case len(s) > structs.MaxName:
		f.CheckBytes(name, len(s), structs.MaxName)
	case s == "." || s == "..":
		f.Addf("%s %q is not a name", name, s)
	default:
		f.checkLetters(name, s)
	}
}

func (f Errors) checkLetters(name, s string) {
	if !utf8.ValidString(s) {
		f.Addf("%s is not text in UTF-8", name)
		return
	}
	for _, r := range s {
		if r == '/' || r == '\\' ||
			unicode.IsControl(r) || unicode.IsSpace(r) {
			f.Addf("%s %q must not hold %q: slashes, white space and control characters are not allowed",
				name, s, r)
			return
		}
	}
}

// CheckOneOf checks a value against the few allowed ones.
func (f Errors) CheckOneOf(name, word string, words []string) {
	if !slices.Contains(words, word) {
		f.Addf("%s %q must be %s", name, word, OneOf(words))
	}
}

// Range has the bounds of a number. Its unit follows a bound in a fault.
type Range struct {
	low, high int
	unit      string
}

// Between returns a range with both ends, of a number without a unit.
func Between(low, high int) Range { return Range{low, high, ""} }

// In returns the range with a unit, which begins with the space before it.
func (r Range) In(unit string) Range {
	r.unit = unit
	return r
}

// CheckRange checks a number.
func (f Errors) CheckRange(name string, n int, r Range) {
	if n < r.low {
		f.Addf("%s %d must be at least %d%s", name, n, r.low, r.unit)
	}
	if n > r.high {
		f.Addf("%s %d must be at most %d%s", name, n, r.high, r.unit)
	}
}

// CheckDuration checks a duration that is not negative.
func (f Errors) CheckDuration(name string, d, most time.Duration) {
	if d < 0 {
		f.Addf("%s must not be negative", name)
	}
	if d > most {
		f.Addf("%s %s must be at most %s", name, d, most)
	}
}

// CheckMeta checks keys that become part of the environment of tasks.
func (f Errors) CheckMeta(name string, m map[string]string) {
	f.CheckBytes(name, structs.PairBytes(m), structs.MaxPairsBytes)
	if f.AtMost("entries of "+name, len(m), structs.MaxPairs) < len(m) {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		f.Require(IsEnvironKey(k), "%s: key %q must not be empty nor hold = or NUL", name, k)
		f.Require(!strings.ContainsRune(m[k], 0),
			"%s: the value of %q must not hold NUL", name, k)
	}
}

// NestsWithin reports whether a value of a task's config nests maps and lists at most a number of levels
// deep. A value has to stay far from the depth limit of a decoder: a log entry, an answer and a snapshot hold
// it at different depths, and a server that cannot read an entry stops.
func NestsWithin(v any, levels int) bool {
	var parts iter.Seq[any]
	switch v := v.(type) {
	case map[string]any:
		parts = maps.Values(v)
	case []any:
		parts = slices.Values(v)
	default:
		return true
	}

	if levels == 0 {
		return false
	}

	for part := range parts {
		if !NestsWithin(part, levels-1) {
			return false
		}
	}

	return true
}

// CheckCSIMap checks a map that is sent to a plugin (CSI spec, "Size Limits"); no value is shown.
func (f Errors) CheckCSIMap(name string, m map[string]string) {
	total := 0
	for _, k := range slices.Sorted(maps.Keys(m)) {
		total += len(k) + len(m[k])
		f.Require(k != "", "%s has an empty key", name)
		f.Require(utf8.ValidString(k) && utf8.ValidString(m[k]),
			"%s: key or value is not text in UTF-8; encode it, for example in base64", name)
	}
	f.Require(total <= structs.MaxCSIMap, "%s has %d bytes; CSI allows %d", name, total, structs.MaxCSIMap)
}

var pluginIDForm = Pattern(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,126}[a-zA-Z0-9])?$`)

// CheckPluginID checks the ID of a CSI plugin, which operators choose.
func (f Errors) CheckPluginID(name, id string) {
	switch {
	case id == "":
		f.Addf("%s is required", name)
	case !pluginIDForm().MatchString(id):
		f.Addf("%s %q must be at most 128 letters, digits, dots, dashes and underscores, beginning and ending "+
			"with a letter or digit", name, id)
	}
}
