package field

import (
	"fmt"
	"reflect"
	"strings"

	"berth/structs"
)

// Errors collects the faults of a specification, so that its author sees all of them. It keeps the first
// MaxFaults and counts the others, and cuts each text that it quotes: its result does not grow with the
// number of faults.
type Errors struct {
	path  string // of the checked value: `job "a": group "b"`
	found *Faults
}

// New collects the faults of a value with a name.
func New(format string, args ...any) Errors {
	f := Errors{found: new(Faults)}
	return f.At(format, args...)
}

// At collects the faults of a part of the value, with the others.
func (f Errors) At(format string, args ...any) Errors {
	step := fmt.Sprintf(format, quotable(args)...)
	if f.path != "" {
		step = f.path + ": " + step
	}
	return Errors{path: step, found: f.found}
}

// Addf adds a fault.
func (f Errors) Addf(format string, args ...any) {
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

// Require adds the fault unless ok. Its arguments cost memory also without a fault. The checks of numbers and
// words, of which a job has many, test first and call Addf.
func (f Errors) Require(ok bool, format string, args ...any) {
	if !ok {
		f.Addf(format, args...)
	}
}

// Found returns the faults.
func (f Errors) Found() *Faults { return f.found }

// Err returns nil without faults, else one error of kind invalid with a line for each.
func (f Errors) Err() error {
	return f.found.Err()
}

// AtMost adds a fault if there are more than max elements, and returns the number of elements to check.
func (f Errors) AtMost(name string, n, max int) int {
	if n > max {
		f.Addf("%d %s; at most %d are allowed", n, name, max)
	}
	return min(n, max)
}

// FirstOf adds a fault if a list has more than most elements, and returns the elements to check.
func FirstOf[T any](f Errors, name string, list []T, most int) []T {
	return list[:f.AtMost(name, len(list), most)]
}

// Text is a text of berth itself, which a fault shows whole.
type Text string

// OneOf lists the allowed values.
func OneOf[T ~string](values []T) Text {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = string(v)
	}
	return Text("one of " + strings.Join(parts, ", "))
}

// quotable cuts the texts among the arguments of a fault, which come from outside.
func quotable(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case Text:
			out[i] = v
		case error:
			out[i] = structs.Cut(v.Error(), 2*structs.MaxQuoted)
		default:
			out[i] = arg
			if r := reflect.ValueOf(arg); r.Kind() == reflect.String {
				out[i] = structs.Cut(r.String(), structs.MaxQuoted)
			}
		}
	}
	return out
}
