package template

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode"

	"berth/internal/gotext"
	"berth/structs"
)

// functions returns the functions of a text. It replaces the functions of text/template that make texts,
// because every function that makes a value is bounded.
func (r *rendering) functions() gotext.Functions {
	all := gotext.Functions{
		"env":          r.env,
		"mustEnv":      r.mustEnv,
		"envOrDefault": r.envOrDefault,
		"file":         r.file,
		"sockaddr":     r.sockaddr,
		"timestamp":    timestamp,

		"executeTemplate": r.executeTemplate,
		"loop":            loop,
		"scratch":         func() (*scratch, error) { return r.scratch, nil },
	}

	for _, some := range []gotext.Functions{
		r.printFunctions(), r.textFunctions(), listFunctions, r.encodings(), numberFunctions,
		r.sprigFunctions(), r.lookupFunctions(), groupFunctions,
	} {
		maps.Copy(all, some)
	}

	for name, f := range all {
		all[name] = r.bound(f)
	}
	return all
}

// printFunctions returns the functions of text/template that make texts.
func (r *rendering) printFunctions() gotext.Functions {
	return gotext.Functions{
		"print":    func(args ...any) (string, error) { return fmt.Sprint(args...), nil },
		"println":  func(args ...any) (string, error) { return fmt.Sprintln(args...), nil },
		"printf":   r.printf,
		"html":     func(args ...any) (string, error) { return template.HTMLEscaper(args...), nil },
		"js":       func(args ...any) (string, error) { return template.JSEscaper(args...), nil },
		"urlquery": func(args ...any) (string, error) { return template.URLQueryEscaper(args...), nil },
	}
}

func (r *rendering) textFunctions() gotext.Functions {
	return gotext.Functions{
		"indent":          r.indent,
		"join":            r.join,
		"regexMatch":      regexMatch,
		"regexReplaceAll": r.regexReplaceAll,
		"replaceAll":      r.replaceAll,
		"split":           split,
		"splitToMap":      splitToMap,
		"toLower":         func(s string) (string, error) { return strings.ToLower(s), nil },
		"toTitle":         toTitle,
		"toUpper":         func(s string) (string, error) { return strings.ToUpper(s), nil },
		"trim":            trimSet,
		"trimPrefix": func(prefix, s string) (string, error) {
			return strings.TrimPrefix(s, prefix), nil
		},
		"trimSpace": func(s string) (string, error) { return strings.TrimSpace(s), nil },
		"trimSuffix": func(suffix, s string) (string, error) {
			return strings.TrimSuffix(s, suffix), nil
		},
	}
}

func (r *rendering) env(name string) (string, error) {
	v, err := r.variable(name)
	return v.Value, err
}

func (r *rendering) mustEnv(name string) (string, error) {
	v, err := r.variable(name)
	if err == nil && v.Value == "" {
		err = structs.Invalidf("the variable %s is empty or not set", structs.Cut(name, structs.MaxQuoted))
	}
	return v.Value, err
}

func (r *rendering) envOrDefault(name, other string) (string, error) {
	v, err := r.variable(name)
	if !v.Set {
		return other, err
	}
	return v.Value, err
}

// timestamp returns the present time in UTC, in a layout of Go, in seconds for "unix", or as in RFC 3339.
func timestamp(layout ...string) (string, error) {
	now := time.Now().UTC()
	switch {
	case len(layout) > 1:
		return "", structs.Invalidf("timestamp takes at most one layout")
	case len(layout) == 0:
		return now.Format(time.RFC3339), nil
	case layout[0] == "unix":
		return strconv.FormatInt(now.Unix(), 10), nil
	}
	return now.Format(layout[0]), nil
}

func (r *rendering) executeTemplate(name string, data ...any) (string, error) {
	switch len(data) {
	case 0:
		return r.run(name, nil)
	case 1:
		return r.run(name, data[0])
	}
	return "", structs.Invalidf("executeTemplate takes a name and at most one value")
}

// loop returns the numbers from 0, or from the first of two bounds, up to a bound that it leaves out.
func loop(bounds ...any) (iter.Seq[int64], error) {
	var numbers []int64
	for _, b := range bounds {
		n, err := integer(b)
		if err != nil {
			return nil, err
		}

		numbers = append(numbers, n)
	}

	switch len(numbers) {
	case 1:
		numbers = []int64{0, numbers[0]}
	case 2:
	default:
		return nil, structs.Invalidf("loop takes one or two numbers")
	}

	// No list is made, and the rendering bounds the passes.
	return func(yield func(int64) bool) {
		for i := numbers[0]; i < numbers[1] && yield(i); i++ {
		}
	}, nil
}

// integer converts a whole number, or its text.
func integer(v any) (int64, error) {
	x := reflect.ValueOf(v)
	switch {
	case x.Kind() == reflect.String:
		return strconv.ParseInt(x.String(), 10, 64)
	case x.CanInt():
		return x.Int(), nil
	case x.CanUint():
		return int64(x.Uint()), nil
	}
	return 0, structs.Invalidf("the value, a %T, is not a whole number", v)
}

// wideVerb matches a verb of printf by which a short text makes a long one.
var wideVerb = regexp.MustCompile(`%[^A-Za-z%]*(\*|\[|[0-9]{4})`)

const maxWidth = 999

// widths matches what may be the width of a verb, or its precision.
var widths = regexp.MustCompile(`[0-9]+`)

// printf charges the padding before it is made: a verb pads each element of a list.
func (r *rendering) printf(format string, args ...any) (string, error) {
	if wideVerb.MatchString(format) {
		return "", structs.Invalidf("printf: a verb has *, an index, or a width above %d", maxWidth)
	}
	widest := 0
	for _, digits := range widths.FindAllString(format, -1) {
		n, err := strconv.Atoi(digits)
		if err != nil {
			// The number does not fit an int.
			n = maxWidth
		}
		widest = max(widest, min(n, maxWidth))
	}
	err := r.charge(2 * widest * countLeaves(reflect.ValueOf(args))) // width and precision
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(format, args...), nil
}

// countLeaves counts the values in lists and maps that are no lists or maps themselves.
func countLeaves(v reflect.Value) int {
	n := 0
	switch v.Kind() {
	case reflect.Interface:
		return countLeaves(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			n += countLeaves(v.Index(i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			n += 1 + countLeaves(it.Value())
		}
	default:
		n = 1
	}
	return n
}

// indent puts spaces before each line that is not empty.
func (r *rendering) indent(spaces int, s string) (string, error) {
	if spaces < 0 {
		return "", structs.Invalidf("indent: %d spaces", spaces)
	}
	lines := strings.SplitAfter(s, "\n")
	err := r.chargeTimes(len(lines), spaces)
	if err != nil {
		return "", err
	}
	prefix := strings.Repeat(" ", spaces)
	for i, line := range lines {
		if line != "" && line != "\n" {
			lines[i] = prefix + line
		}
	}
	return strings.Join(lines, ""), nil
}

func (r *rendering) join(separator string, list any) (string, error) {
	parts, err := items(list)
	if err != nil {
		return "", err
	}
	err = r.chargeTimes(len(parts), len(separator))
	if err != nil {
		return "", err
	}
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = fmt.Sprint(part)
	}
	return strings.Join(texts, separator), nil
}

// items returns the elements of a list of any type.
func items(list any) ([]any, error) {
	v := reflect.ValueOf(list)
	if v.Kind() != reflect.Slice {
		return nil, structs.Invalidf("%T is not a list", list)
	}
	all := make([]any, v.Len())
	for i := range all {
		all[i] = v.Index(i).Interface()
	}
	return all, nil
}

func (r *rendering) replaceAll(from, to, s string) (string, error) {
	err := r.chargeTimes(strings.Count(s, from), len(to))
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(s, from, to), nil
}

// maxPattern bounds a regular expression, whose match takes time in proportion to it.
const maxPattern = 1000

// compile compiles a regular expression that is not too long.
func compile(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, structs.Invalidf("a regular expression has more than %d bytes", maxPattern)
	}
	return regexp.Compile(pattern)
}

// trimSet takes time in proportion to both texts.
func trimSet(set, s string) (string, error) {
	if len(set) > maxPattern {
		return "", structs.Invalidf("a set of characters has more than %d bytes", maxPattern)
	}
	return strings.Trim(s, set), nil
}

func regexMatch(pattern, s string) (bool, error) {
	re, err := compile(pattern)
	return err == nil && re.MatchString(s), err
}

func (r *rendering) regexReplaceAll(pattern, to, s string) (string, error) {
	re, err := compile(pattern)
	if err != nil {
		return "", err
	}

	const header = 24 // bytes of a slice
	// The matches take memory before the result is charged, so what is left bounds their number.
	most := (maxValues - r.size) / (header + 16*(re.NumSubexp()+1))
	matches := re.FindAllStringSubmatchIndex(s, most+1)
	if len(matches) > most {
		return "", r.charge(maxValues)
	}

	var out []byte
	end := 0
	for _, match := range matches {
		before := len(out)
		out = append(out, s[end:match[0]]...)
		out = re.ExpandString(out, to, s, match)
		end = match[1]
		err := r.charge(len(out) - before)
		if err != nil {
			return "", err
		}
	}

	return string(append(out, s[end:]...)), nil
}

// split returns the parts of a text. The empty text has none.
func split(separator, s string) ([]string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return []string{}, nil
	}
	return strings.Split(s, separator), nil
}

// splitToMap splits a text into pairs, and each pair into a key and a value.
func splitToMap(between, within, s string) (map[string]string, error) {
	pairs, err := split(between, s)
	out := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		k, v, _ := strings.Cut(pair, within)
		out[k] = v
	}
	return out, err
}

// toTitle makes the first letter of each word a capital.
func toTitle(s string) (string, error) {
	before := ' '
	return strings.Map(func(c rune) rune {
		inWord := unicode.IsLetter(before) || unicode.IsDigit(before) || before == '_' || before == '\''
		before = c
		if inWord {
			return c
		}
		return unicode.ToTitle(c)
	}, s), nil
}

// scratch keeps values under names while a text is rendered.
// Its methods are not bound (see rendering.bound), so each one charges its values itself.
type scratch struct {
	r      *rendering
	values map[string]any
}

func (*scratch) String() string { return "scratch" }

// Key reports whether there is a value.
func (s *scratch) Key(key string) bool { return s.values[key] != nil }

// Get returns a value, nil if there is none.
func (s *scratch) Get(key string) any { return s.values[key] }

// Set keeps a value, and prints nothing, as all methods that keep one.
func (s *scratch) Set(key string, value any) (string, error) {
	s.values[key] = value
	return "", s.r.charge(len(key) + 64)
}

// SetX keeps a value if there is none.
func (s *scratch) SetX(key string, value any) (string, error) {
	if s.Key(key) {
		return "", nil
	}
	return s.Set(key, value)
}

// MapSet keeps a value in the map of a name. The value is a text, a number or a boolean, so that no map gets
// into itself.
func (s *scratch) MapSet(key, name string, value any) (string, error) {
	switch reflect.ValueOf(value).Kind() {
	case reflect.Map, reflect.Slice, reflect.Array, reflect.Pointer, reflect.Func, reflect.Struct:
		return "", structs.Invalidf("scratch.MapSet %s: %T is not a text, a number or a boolean", name, value)
	}
	if s.values[key] == nil {
		s.values[key] = map[string]any{}
	}
	m, ok := s.values[key].(map[string]any)
	if !ok {
		return "", structs.Invalidf("scratch.MapSet: %s has a value that is not a map", key)
	}
	m[name] = value
	return "", s.r.charge(len(name) + 64)
}

// MapSetX keeps a value in the map of a name if it has none there.
func (s *scratch) MapSetX(key, name string, value any) (string, error) {
	m, _ := s.values[key].(map[string]any)
	if _, ok := m[name]; ok {
		return "", nil
	}
	return s.MapSet(key, name, value)
}

// MapValues returns the values of the map of a name, in the order of their keys.
func (s *scratch) MapValues(key string) ([]any, error) {
	m, ok := s.values[key].(map[string]any)
	if s.values[key] != nil && !ok {
		return nil, structs.Invalidf("scratch.MapValues: %s has a value that is not a map", key)
	}
	values := make([]any, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[k])
	}
	err := s.r.Step()
	if err == nil {
		err = s.r.charge(32 * len(values))
	}
	return values, err
}
