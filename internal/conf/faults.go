package conf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"berth/structs"
	"berth/structs/validate/field"
)

// maxLine bounds the text of one fault, in bytes.
const maxLine = 1 << 10

// placedError is the error of faults with their places.
type placedError struct{ diags hcl.Diagnostics }

// Error returns a line `file:line,col: message` for each fault.
func (e *placedError) Error() string {
	var lines []string
	for _, d := range e.diags {
		lines = append(lines, structs.Cut(formatLine(d), maxLine))
	}
	if len(lines) <= structs.MaxFaults+1 { // one more may be the number of others
		return structs.Printable(strings.Join(lines, "\n"))
	}
	return field.JoinFaults(lines)
}

// Error turns diagnostics into one error of kind invalid. Each one is a line `file:line,col: message`. Error
// returns nil if no diagnostic is an error. It drops a diagnostic that is there already.
func Error(diags hcl.Diagnostics) error {
	kept := &placedError{}
	seen := map[string]bool{}
	for _, d := range diags {
		line := formatLine(d)
		if d.Severity == hcl.DiagError && !seen[line] {
			seen[line] = true
			kept.diags = append(kept.diags, d)
		}
	}
	if len(kept.diags) == 0 {
		return nil
	}
	return structs.Invalidf("%w", kept)
}

// Faults returns the faults that Error turned into an error, also below errors.Join. Of another error it
// returns a diagnostic without a place for each line of its text.
func Faults(err error) (all hcl.Diagnostics) {
	var placed *placedError
	switch {
	case err == nil:
		// The error is of another package, for example of a check of the values.
		return nil
	case !errors.As(err, &placed):
		for line := range strings.SplitSeq(err.Error(), "\n") {
			all = append(all, &hcl.Diagnostic{
				Severity: hcl.DiagError,
				Summary:  line,
			})
		}
		return all
	}

	// A joined error may have both kinds below it.
	switch e := err.(type) {
	case *placedError:
		return slices.Clone(e.diags)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, Faults(one)...)
		}
		return all
	}

	return Faults(errors.Unwrap(err))
}

// Place adds a place to each fault of an invalid error that has none. placeOf returns it for the text of the
// fault, nil for none. It also returns whether the fault counts: Place drops the others, and returns nil if
// none is left. It does not change errors of other kinds.
func Place(err error, placeOf func(text string) (at *hcl.Range, counts bool)) error {
	if !structs.IsKind(err, structs.KindInvalid) {
		return err
	}

	var placed hcl.Diagnostics
	for _, d := range Faults(err) {
		// A fault with a place was placed where it was found, which is more exact.
		if d.Subject == nil {
			at, counts := placeOf(d.Summary)
			if !counts {
				continue
			}

			d = &hcl.Diagnostic{
				Severity: d.Severity,
				Summary:  d.Summary,
				Detail:   d.Detail,
				Subject:  at,
			}
		}

		placed = append(placed, d)
	}

	return Error(placed)
}

// AsWarnings returns the faults of an error as warnings.
func AsWarnings(err error) hcl.Diagnostics {
	diags := Faults(err)
	// The faults belong to the error, which others may still read.
	for i, d := range diags {
		warning := *d
		warning.Severity = hcl.DiagWarning
		diags[i] = &warning
	}
	return diags
}

// WarningsOf returns the diagnostics that are no errors.
func WarningsOf(diags hcl.Diagnostics) hcl.Diagnostics {
	return slices.DeleteFunc(slices.Clone(diags), func(d *hcl.Diagnostic) bool {
		return d.Severity != hcl.DiagWarning
	})
}

// Warnings returns a line `file:line,col: message` for each diagnostic that is no error.
func Warnings(diags hcl.Diagnostics) []string {
	var lines []string
	for _, d := range diags {
		if d.Severity == hcl.DiagWarning {
			lines = append(lines, structs.Cut(formatLine(d), maxLine))
		}
	}
	return slices.Compact(lines)
}

// formatLine returns the line of a diagnostic. HCL divides a message into a summary and a detail.
func formatLine(d *hcl.Diagnostic) string {
	text := d.Summary
	if d.Detail != "" {
		text = lowerFirst(d.Summary) + ": " + d.Detail
	}
	if d.Subject == nil {
		return text
	}
	at := d.Subject.Start
	return fmt.Sprintf("%s:%d,%d: %s",
		d.Subject.Filename, at.Line, at.Column, text)
}

// lowerFirst joins a summary, which HCL begins with a capital letter, to the text before it.
func lowerFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[n:]
}
