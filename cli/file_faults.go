package cli

import (
	"errors"
	"io"

	"github.com/hashicorp/hcl/v2"

	"berth/internal/hclconf"
	"berth/internal/strictjson"
	"berth/jobspec"
	"berth/structs"
)

// fileFaults is the error of faults in files, which Run writes with the lines of the files.
type fileFaults struct {
	error
	sources map[string][]byte
}

// inFiles returns an invalid error as one whose faults are shown with the lines of files.
func inFiles(sources map[string][]byte, err error) error {
	if !structs.IsKind(err, structs.KindInvalid) {
		return err
	}
	return &fileFaults{err, sources}
}

// Unwrap returns the error without the files.
func (f *fileFaults) Unwrap() error { return f.error }

// checkFile returns the faults of a file, and those of the specification that they leave.
func checkFile[T interface{ Validate() error }](f *jobspec.File[T], faults error) error {
	if f == nil {
		return faults
	}
	faults = errors.Join(faults, f.Content.Validate())
	if faults == nil {
		return nil
	}
	return f.Locate(structs.Invalidf("%w", faults))
}

// write writes the faults.
func (f *fileFaults) write(w io.Writer) {
	_ = hclconf.Write(w, f.sources, hclconf.Faults(f.error))
}

// placeJSON returns the error of a file in JSON with the place of its fault.
func placeJSON(name string, err error) error {
	var fault *strictjson.Fault
	if !errors.As(err, &fault) {
		return structs.Invalidf("%s: %w", name, err)
	}
	at := hcl.Pos{
		Line:   fault.Line,
		Column: fault.Column,
		Byte:   fault.Offset,
	}
	return hclconf.Error(hcl.Diagnostics{
		hclconf.Fault(hcl.Range{Filename: name, Start: at, End: at}, "%s", fault.Text),
	})
}
