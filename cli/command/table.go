package command

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"berth/api/show"
	"berth/structs"
)

// TerminalWidth returns the width of a terminal. It is 0 for files and pipes, which get complete lines.
func (c *Call) TerminalWidth() int {
	f, ok := c.Out.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// The colours of a terminal, and the end of a colour.
const (
	Red    = "\x1b[31m"
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Plain  = "\x1b[0m"
)

// colorState returns a word in the colour of the state that it names.
func colorState(word string) string {
	switch word {
	case "running", "ready", "healthy", "complete", "alive",
		"granted", "attached", "eligible", "yes":
		return Green + word + Plain
	case "pending", "waiting", "creating", "deleting", "attaching",
		"detaching", "blocked", "ineligible", "initializing", "leaving":
		return Yellow + word + Plain
	case "failed", "lost", "dead", "down", "unhealthy", "no":
		return Red + word + Plain
	}
	return word
}

// Colour reports whether the output has colours.
func (c *Call) Colour() bool {
	return !c.Bool("no-color") &&
		os.Getenv("NO_COLOR") == "" &&
		c.TerminalWidth() > 0
}

// Grid has the rows of a table.
type Grid [][]string

// AddRow adds a row with these cells.
func (g *Grid) AddRow(cells ...string) {
	*g = append(*g, cells)
}

// column is a column of a table. The first cell is its title.
type column struct {
	cells []string
	width int // in characters; longer cells are cut
}

// columnsOf returns the columns of rows under their titles, which | separates. It omits empty columns.
func columnsOf(titles string, rows Grid) (columns []*column) {
	for i, title := range strings.Split(titles, "|") {
		c := &column{}
		c.addCell(title)
		for _, row := range rows {
			c.addCell(show.OneLine(structs.Printable(row[i])))
		}
		if strings.Join(c.cells[1:], "") != "" {
			columns = append(columns, c)
		}
	}
	return columns
}

func (c *column) addCell(cell string) {
	c.cells = append(c.cells, cell)
	c.width = max(c.width, utf8.RuneCountInString(cell))
}

// Table writes rows under their titles and fits them into a terminal (see columnsOf, dropColumns,
// fitColumns).
func (c *Call) Table(titles string, rows Grid) {
	columns, texts := dropColumns(columnsOf(titles, rows), c.TerminalWidth())
	fitColumns(columns, c.TerminalWidth())
	colour := c.Colour()
	for n := range len(rows) + 1 {
		var line strings.Builder
		for _, column := range columns {
			text := CutCell(column.cells[n], column.width)
			free := column.width - utf8.RuneCountInString(text)
			gap := strings.Repeat(" ", free+2)
			if colour && n > 0 {
				text = colorState(text)
			}

			line.WriteString(text + gap)
		}

		fmt.Fprintln(c.Out, strings.TrimRight(line.String(), " "))
		if n > 0 &&
			texts != nil &&
			texts.cells[n] != "" {
			fmt.Fprintf(c.Out, "  %s: %s\n", texts.cells[0], texts.cells[n])
		}
	}
}

// spareTitles are the titles of columns that a narrow terminal does not show, in the order in which they are
// dropped. textTitles are the titles of texts, which lose their meaning when they are cut.
var (
	spareTitles = []string{"Protocol", "Modified"}
	textTitles  = []string{
		"Waits For",
		"Last Error",
		"Description",
		"Message",
		"Details",
		"Cause",
	}
)

// dropColumns removes columns from a table that is wider than width. It first removes spare columns, then a
// last column of texts, which it returns for lines below the rows. Width 0 is unlimited.
func dropColumns(columns []*column, width int) (shown []*column, texts *column) {
	for _, title := range spareTitles {
		if excessWidth(columns, width) > 0 {
			columns = slices.DeleteFunc(columns, func(c *column) bool {
				return c.cells[0] == title
			})
		}
	}
	last := len(columns) - 1
	if last > 0 &&
		excessWidth(columns, width) > 0 &&
		slices.Contains(textTitles, columns[last].cells[0]) {
		return columns[:last], columns[last]
	}
	return columns, nil
}

// excessWidth returns by how much the columns with the gaps between them are wider than width. Width 0 is
// unlimited.
func excessWidth(columns []*column, width int) int {
	if width == 0 {
		return 0
	}
	sum := 2 * (len(columns) - 1)
	for _, c := range columns {
		sum += c.width
	}
	return sum - width
}

// neverCut reports whether cells are never cut. A user cannot type a cut ID.
func (c *column) neverCut() bool {
	title := c.cells[0]
	return title == "ID" ||
		strings.HasSuffix(title, " ID") ||
		title == "Node" ||
		title == "Allocation"
}

// fitColumns narrows the widest columns until the table fits into width. It does not narrow columns that
// are never cut. Width 0 is unlimited.
func fitColumns(columns []*column, width int) {
	const narrowest = 8
	for range excessWidth(columns, width) {
		widest := &column{width: narrowest}
		for _, c := range columns {
			if !c.neverCut() && c.width > widest.width {
				widest = c
			}
		}
		widest.width--
	}
}

// CutCell cuts a text to a width in characters.
func CutCell(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}

// Pairs writes names, each with the value that follows it. It omits names with an empty value.
func (c *Call) Pairs(namesAndValues ...string) {
	var shown Grid
	width := 0
	for pair := range slices.Chunk(namesAndValues, 2) {
		if pair[1] != "" {
			shown = append(shown, pair)
			width = max(width, len(pair[0]))
		}
	}
	colour := c.Colour()
	for _, pair := range shown {
		value := structs.Printable(pair[1])
		if colour {
			value = colorState(value)
		}
		fmt.Fprintf(c.Out, "%-*s = %s\n", width, pair[0], value)
	}
}

// Section writes a title and a table, or "none" if the table has no rows.
func (c *Call) Section(title, titles string, rows Grid) {
	c.Printf("\n%s\n", title)
	if len(rows) == 0 {
		c.Printf("none\n")
		return
	}
	c.Table(titles, rows)
}

// PrintSome shows a section that most nodes and allocations do not have.
func PrintSome(c *Call, title, titles string, rows Grid) {
	if len(rows) > 0 {
		c.Section(title, titles, rows)
	}
}
