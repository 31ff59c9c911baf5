package command

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/hcl/v2"

	"berth/internal/conf"
	"berth/jobspec/locate"
	"berth/structs"
)

// fileFaults is the error of faults in files, which Run writes with the lines of the files.
type fileFaults struct {
	error
	sources map[string][]byte
}

// InFiles returns an invalid error as one whose faults are shown with the lines of files.
func InFiles(sources map[string][]byte, err error) error {
	if !structs.IsKind(err, structs.KindInvalid) {
		return err
	}
	return &fileFaults{err, sources}
}

// Unwrap returns the error without the files.
func (f *fileFaults) Unwrap() error { return f.error }

// CheckContent returns the faults of a file and of its content, with their places.
func CheckContent(faults, ofContent error, locate func(error) error) error {
	faults = errors.Join(faults, ofContent)
	if faults == nil {
		return nil
	}
	return locate(structs.Invalidf("%w", faults))
}

// write writes the faults.
func (f *fileFaults) write(w io.Writer) {
	_ = conf.Write(w, f.sources, conf.Faults(f.error))
}

// PlaceJSON returns the faults of a file in the JSON of the API with their places; err is the error of
// its decoding. place adds places to the faults of the content. It is nil if the faults leave none.
func PlaceJSON(name string, src []byte, err error) (place func(error) error, faults error) {
	var found *conf.JSONFaults
	if err != nil && !errors.As(err, &found) {
		return nil, structs.Invalidf("%s: %w", name, err)
	}
	if found == nil || found.Partly {
		place = func(err error) error {
			return locate.InJSON(name, src, found, err)
		}
	}
	return place, conf.Error(jsonDiagnostics(name, found))
}

func jsonDiagnostics(name string, found *conf.JSONFaults) (diags hcl.Diagnostics) {
	if found == nil {
		return nil
	}

	for _, f := range found.List {
		at := hcl.Pos{
			Line:   max(f.Line, 1),
			Column: max(f.Column, 1),
			Byte:   f.Offset,
		}

		diags = append(diags, conf.Fault(hcl.Range{Filename: name, Start: at, End: at}, "%s", f.Text))
	}

	if found.More > 0 {
		diags = append(diags, &hcl.Diagnostic{
			Severity: hcl.DiagError,
			Summary:  fmt.Sprintf("and %d more", found.More),
		})
	}

	return diags
}
