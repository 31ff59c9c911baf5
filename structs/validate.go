package structs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// fieldErrors collects the faults of a specification, so that its author sees all of them. It keeps the
// first MaxFaults and counts the others, and cuts each text that it quotes: its result does not grow with the
// number of faults.
type fieldErrors struct {
	path  string // of the checked value: `job "a": group "b"`
	found *Faults
}

// newFieldErrors collects the faults of a value with a name.
func newFieldErrors(format string, args ...any) fieldErrors {
	f := fieldErrors{found: new(Faults)}
	return f.at(format, args...)
}

// at collects the faults of a part of the value, with the others.
func (f fieldErrors) at(format string, args ...any) fieldErrors {
	step := fmt.Sprintf(format, quotable(args)...)
	if f.path != "" {
		step = f.path + ": " + step
	}
	return fieldErrors{path: step, found: f.found}
}

func (f fieldErrors) addf(format string, args ...any) {
	if f.found.Full() {
		f.found.Add("")
		return
	}
	line := fmt.Sprintf(format, quotable(args)...)
	if f.path != "" {
		line = f.path + ": " + line
	}
	f.found.Add(line)
}

// require adds the fault unless ok. Its arguments cost memory also without a fault. The checks of numbers and
// words, of which a job has many, test first and call addf.
func (f fieldErrors) require(ok bool, format string, args ...any) {
	if !ok {
		f.addf(format, args...)
	}
}

// err returns nil without faults, else one error of kind invalid with a line for each.
func (f fieldErrors) err() error {
	return f.found.Err()
}

// atMost adds a fault if there are more than max elements, and returns the number of elements to check.
func (f fieldErrors) atMost(name string, n, max int) int {
	if n > max {
		f.addf("%d %s; at most %d are allowed", n, name, max)
	}
	return min(n, max)
}

// firstOf adds a fault if a list has more than most elements, and returns the elements to check.
func firstOf[T any](f fieldErrors, name string, list []T, most int) []T {
	return list[:f.atMost(name, len(list), most)]
}

// checkBytes checks the length of a text, or of several in sum.
func (f fieldErrors) checkBytes(name string, n, most int) {
	if n > most {
		f.addf("%s has %d bytes; at most %d are allowed", name, n, most)
	}
}

// checkText checks a free text.
func (f fieldErrors) checkText(name, s string) {
	f.checkString(name, s, MaxText)
}

// checkString checks the bytes of a text. JSON has no other bytes than UTF-8, and no program takes a NUL.
func (f fieldErrors) checkString(name, s string, most int) {
	f.checkBytes(name, len(s), most)
	f.require(utf8.ValidString(s) && !strings.ContainsRune(s, 0), "%s must be UTF-8 without NUL", name)
}

// checkOneOf checks a value against the few allowed ones.
func (f fieldErrors) checkOneOf(name, word string, words []string) {
	if !slices.Contains(words, word) {
		f.addf("%s %q must be %s", name, word, oneOf(words))
	}
}

// intRange has the bounds of a number. Its unit follows a bound in a fault.
type intRange struct {
	low, high int
	unit      string
}

func (f fieldErrors) checkRange(name string, n int, r intRange) {
	if n < r.low {
		f.addf("%s %d must be at least %d%s", name, n, r.low, r.unit)
	}
	if n > r.high {
		f.addf("%s %d must be at most %d%s", name, n, r.high, r.unit)
	}
}

// checkDuration checks a duration that is not negative.
func (f fieldErrors) checkDuration(name string, d, most time.Duration) {
	if d < 0 {
		f.addf("%s must not be negative", name)
	}
	if d > most {
		f.addf("%s %s must be at most %s", name, d, most)
	}
}

// pattern returns an expression that it compiles at the first use: every process of the executable, also the
// supervisor of a task, begins with the variables of its packages.
func pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

var (
	namespaceForm  = pattern(`^[a-zA-Z0-9-]{1,128}$`)
	nodePoolForm   = pattern(`^[a-zA-Z0-9_-]{1,128}$`)
	pluginIDForm   = pattern(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,126}[a-zA-Z0-9])?$`)
	secretKeyForm  = pattern(`^[a-zA-Z0-9._-]+$`)
	topologyForm   = pattern(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$`)
	environKeyForm = pattern(`^[^=\x00]+$`)
)

// checkName checks a name, which appears in tables, in paths of the HTTP API and as a directory.
func (f fieldErrors) checkName(name, s string) {
	switch {
	case s == "":
		f.addf("%s is required", name)
	case len(s) > MaxName:
		f.checkBytes(name, len(s), MaxName)
	case s == "." || s == "..":
		f.addf("%s %q is not a name", name, s)
	default:
		f.checkLetters(name, s)
	}
}

func (f fieldErrors) checkLetters(name, s string) {
	if !utf8.ValidString(s) {
		f.addf("%s is not text in UTF-8", name)
		return
	}
	for _, r := range s {
		if r == '/' || r == '\\' ||
			unicode.IsControl(r) || unicode.IsSpace(r) {
			f.addf("%s %q must not hold %q: slashes, white space and control characters are not allowed", name, s, r)
			return
		}
	}
}

func (f fieldErrors) checkNamespace(ns string) {
	f.require(namespaceForm().MatchString(ns), "namespace %q must be 1 to 128 letters, digits and dashes", ns)
}

func (f fieldErrors) checkPluginID(name, id string) {
	switch {
	case id == "":
		f.addf("%s is required", name)
	case !pluginIDForm().MatchString(id):
		f.addf("%s %q must be at most 128 letters, digits, dots, dashes and underscores, beginning and ending "+
			"with a letter or digit", name, id)
	}
}

// checkCSIString checks a string that is sent to a plugin (CSI spec, "Size Limits"); its text is not shown.
func (f fieldErrors) checkCSIString(name, s string) {
	f.require(len(s) <= MaxCSIString,
		"%s has %d bytes; CSI allows %d", name, len(s), MaxCSIString)
	f.require(isText(s), "%s must be text in UTF-8 without NUL", name)
}

// isText reports whether a string is UTF-8 without NUL.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

// checkCSIMap checks a map that is sent to a plugin (CSI spec, "Size Limits"); no value is shown.
func (f fieldErrors) checkCSIMap(name string, m map[string]string) {
	total := 0
	for _, k := range slices.Sorted(maps.Keys(m)) {
		total += len(k) + len(m[k])
		f.require(k != "", "%s has an empty key", name)
		f.require(utf8.ValidString(k) && utf8.ValidString(m[k]),
			"%s: key or value is not text in UTF-8; encode it, for example in base64", name)
	}
	f.require(total <= MaxCSIMap, "%s has %d bytes; CSI allows %d", name, total, MaxCSIMap)
}

// checkModes checks the modes of a volume or of a claim.
func (f fieldErrors) checkModes(access CSIAccessMode, attachment CSIAttachmentMode) {
	f.require(access.Valid(),
		"access_mode %s; %s", requiredOr(access), oneOf(CSIAccessModes))
	f.require(attachment.Valid(),
		"attachment_mode %s; one of %s, %s", requiredOr(attachment), CSIFileSystem, CSIBlockDevice)
}

// checkMountOptions checks mount options by the bounds of the CSI spec (VolumeCapability.MountVolume). Flags
// may be secret, so no fault shows them.
func (f fieldErrors) checkMountOptions(o *CSIMountOptions) {
	if o == nil {
		return
	}
	f.checkCSIString("mount_options: fs_type", o.FSType)
	total := 0
	for _, flag := range o.MountFlags {
		total += len(flag)
		f.require(flag != "", "mount_options: mount_flags holds an empty flag")
		f.require(isText(flag),
			"mount_options: a mount flag must be text in UTF-8 without NUL")
	}
	f.require(total <= MaxCSIMap,
		"mount_options: mount_flags have %d bytes in all; CSI allows %d", total, MaxCSIMap)
}

// ownText is a text of berth itself, which a fault shows whole.
type ownText string

// oneOf lists the allowed values.
func oneOf[T ~string](values []T) ownText {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = string(v)
	}
	return ownText("one of " + strings.Join(parts, ", "))
}
