package command

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"berth/api/show"
	"berth/jobspec"
	"berth/structs"
)

// ReadDefinition reads the file of a namespace or node pool that the first argument names: HCL, or the JSON
// of the API. check checks the content.
func ReadDefinition[T any](
	c *Call,
	fromJSON func([]byte) (T, error),
	fromHCL func(string, []byte) (*jobspec.File[T], error),
	check func(T) error,
) (T, error) {
	var none T
	name := c.Arg(0)
	src, err := c.ReadFile(name)
	if err != nil {
		return none, err
	}

	name = ShownName(name)
	var content T
	var faults error
	var locate func(error) error
	if bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) {
		content, err = fromJSON(src)
		locate, faults = PlaceJSON(name, src, err)
	} else {
		f, err := fromHCL(name, src)
		faults = err
		if f != nil {
			content = f.Content
			locate = f.Locate
		}
	}

	if locate != nil {
		faults = CheckContent(faults, check(content), locate)
	}

	if faults != nil {
		return none, InFiles(map[string][]byte{name: src}, faults)
	}

	return content, nil
}

// PrintMeta shows the meta of a namespace or node pool.
func PrintMeta(c *Call, meta map[string]string) {
	var rows Grid
	for key, value := range show.Sorted(meta) {
		rows.AddRow(key, value)
	}
	if len(rows) > 0 {
		c.Section("Meta", "Key|Value", rows)
	}
}

// WriteExample writes an example to a new file.
func (c *Call) WriteExample(name, text string) error {
	const newFile = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(name, newFile, 0o644)
	if errors.Is(err, os.ErrExist) {
		return structs.Conflictf("there is a file %s already", name)
	}
	if err != nil {
		return structs.Invalidf("%w", err)
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Close())
	if err != nil {
		return err
	}
	c.Printf("Wrote %s\n", name)
	return nil
}

// ShownName returns the name of a file in messages.
func ShownName(name string) string {
	if name == "-" {
		return "stdin"
	}
	return filepath.Clean(name)
}
