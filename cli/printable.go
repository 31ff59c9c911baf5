package cli

import (
	"io"

	"berth/structs"
)

// printable shows control characters as escapes: names, errors and the like come from jobs, plugins and
// servers, and a terminal would take some of them for commands. A text has to come in one piece.
type printable struct{ to io.Writer }

func (w printable) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, structs.Printable(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// printableRows is printable for the cells of a table, which colours are added to.
func printableRows(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for n, row := range rows {
		out[n] = make([]string, len(row))
		for i, cell := range row {
			out[n][i] = structs.Printable(cell)
		}
	}
	return out
}
