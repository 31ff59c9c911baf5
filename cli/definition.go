package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"berth/jobspec"
	"berth/structs"
)

// readDefinition reads the file of a namespace or node pool: HCL, or the JSON of the API.
func readDefinition[T interface{ Validate() error }](
	c *Call,
	name string,
	fromJSON func([]byte) (T, error),
	fromHCL func(string, []byte) (*jobspec.File[T], error),
) (T, error) {
	var none T
	src, err := c.readFile(name)
	if err != nil {
		return none, err
	}
	name = shownName(name)
	var content T
	var faults error
	var locate func(error) error
	if bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) {
		content, err = fromJSON(src)
		locate, faults = placeJSON(name, src, err)
	} else {
		f, err := fromHCL(name, src)
		faults = err
		if f != nil {
			content = f.Content
			locate = f.Locate
		}
	}
	if locate != nil {
		faults = checkContent(faults, content.Validate(), locate)
	}
	if faults != nil {
		return none, inFiles(map[string][]byte{name: src}, faults)
	}
	return content, nil
}

// printMeta shows the meta of a namespace or node pool.
func printMeta(c *Call, meta map[string]string) {
	var rows grid
	for key, value := range sorted(meta) {
		rows.addRow(key, value)
	}
	if len(rows) > 0 {
		c.section("Meta", "Key|Value", rows)
	}
}

// writeExample writes an example to a new file.
func (c *Call) writeExample(name, text string) error {
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

// shownName returns the name of a file in messages.
func shownName(name string) string {
	if name == "-" {
		return "stdin"
	}
	return filepath.Clean(name)
}
