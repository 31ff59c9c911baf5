package cli

import (
	"io"

	"berth/structs"
)

// printable escapes control characters. Names, errors and other texts come from jobs, plugins and servers,
// and a terminal would execute some of the characters. Each Write must have a complete text.
type printable struct{ to io.Writer }

func (w printable) Write(p []byte) (int, error) {
	_, err := io.WriteString(w.to, structs.Printable(string(p)))
	if err != nil {
		return 0, err
	}
	return len(p), nil
}
