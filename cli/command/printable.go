package command

import (
	"io"

	"berth/structs"
)

// Printable escapes control characters. Names, errors and other texts come from jobs, plugins and servers,
// and a terminal would execute some of the characters. Each Write must have a complete text.
type Printable struct{ To io.Writer }

func (w Printable) Write(p []byte) (int, error) {
	_, err := io.WriteString(w.To, structs.Printable(string(p)))
	if err != nil {
		return 0, err
	}
	return len(p), nil
}
