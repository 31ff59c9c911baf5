package conf

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
)

// Decode reads a file into dst, a pointer to a struct. A file whose name ends in .json is JSON. Expressions
// are constants: there are neither variables nor functions. The error is of kind invalid and has a line for
// each fault. Decode adds the positions of the settings that the file has, unless positions is nil.
func Decode(filename string, src []byte, dst any, positions Positions) error {
	body, diags := Parse(filename, src)
	if diags.HasErrors() {
		return Error(diags)
	}
	d := decoder{positions: positions}
	d.decodeBody(body, reflect.ValueOf(dst).Elem())
	return Error(d.diags)
}

// Parse reads the syntax of a file. A file whose name ends in .json is JSON.
func Parse(filename string, src []byte) (hcl.Body, hcl.Diagnostics) {
	isJSON := strings.HasSuffix(filename, ".json")
	// Nothing of a file is parsed before it is measured: see limits.go.
	at, reason := whyUnreadable(filename, src, isJSON)
	if reason != "" {
		return nil, hcl.Diagnostics{Fault(at, "%s", reason)}
	}

	var file *hcl.File
	var diags hcl.Diagnostics
	if isJSON {
		file, diags = json.Parse(src, filename)
	} else {
		file, diags = hclsyntax.ParseConfig(quotedKeys(filename, src),
			filename, hcl.InitialPos)
	}

	if diags.HasErrors() {
		return nil, diags
	}

	return file.Body, diags
}

// Fault returns an error diagnostic. Its text is a complete message.
func Fault(at hcl.Range, format string, args ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{
		Severity: hcl.DiagError,
		Summary:  fmt.Sprintf(format, args...),
		Subject:  &at,
	}
}

// Warning returns a diagnostic that is no error.
func Warning(at hcl.Range, format string, args ...any) *hcl.Diagnostic {
	d := Fault(at, format, args...)
	d.Severity = hcl.DiagWarning
	return d
}
