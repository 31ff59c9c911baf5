package hclconf

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"

	"berth/structs"
)

// Decode reads a file into dst, a pointer to a struct. It is read as JSON when its name ends in .json.
// Expressions are constants: there are neither variables nor functions. The error is of kind invalid and
// holds every fault, one on each line.
func Decode(filename string, src []byte, dst any) error {
	body, diags := Parse(filename, src)
	if diags.HasErrors() {
		return Error(diags)
	}
	return Error(DecodeBody(body, nil, dst))
}

// Parse reads the syntax of a file, JSON when its name ends in .json.
func Parse(filename string, src []byte) (hcl.Body, hcl.Diagnostics) {
	isJSON := strings.HasSuffix(filename, ".json")
	if fault := unreadable(filename, src, isJSON); fault != "" {
		return nil, hcl.Diagnostics{Fault(hcl.Range{Filename: filename, Start: hcl.InitialPos}, "%s", fault)}
	}
	var file *hcl.File
	var diags hcl.Diagnostics
	if isJSON {
		file, diags = json.Parse(src, filename)
	} else {
		file, diags = hclsyntax.ParseConfig(quotedKeys(filename, src), filename, hcl.InitialPos)
	}
	if diags.HasErrors() {
		return nil, diags
	}
	return file.Body, diags
}

// maxLine bounds the text of one fault, in bytes.
const maxLine = 1 << 10

// Error turns diagnostics into one error of kind invalid, one line each as file:line,col: message; nil
// when none is an error.
func Error(diags hcl.Diagnostics) error {
	if !diags.HasErrors() {
		return nil
	}
	var lines []string
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			lines = append(lines, structs.Cut(line(d), maxLine))
		}
	}
	return structs.Errorf(structs.KindInvalid, "%s", structs.JoinFaults(slices.Compact(lines)))
}

func line(d *hcl.Diagnostic) string {
	text := d.Summary
	if d.Detail != "" {
		text = lowerFirst(d.Summary) + ": " + d.Detail
	}
	if d.Subject == nil {
		return text
	}
	return fmt.Sprintf("%s:%d,%d: %s", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column, text)
}

func lowerFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(r)) + s[n:]
}

// Fault makes a diagnostic whose text stands alone after its position.
func Fault(at hcl.Range, format string, args ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: fmt.Sprintf(format, args...), Subject: &at}
}
