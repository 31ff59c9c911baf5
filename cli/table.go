package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// terminalWidth returns the width of a terminal. It is 0 for files and pipes, which get complete lines.
func (c *Call) terminalWidth() int {
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

const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// paint returns a word in the colour of the state that it names.
func paint(word string) string {
	switch word {
	case "running", "ready", "healthy", "complete", "alive", "granted", "attached", "eligible", "yes":
		return green + word + plain
	case "pending", "waiting", "creating", "deleting", "attaching", "detaching", "blocked", "ineligible",
		"initializing", "leaving":
		return yellow + word + plain
	case "failed", "lost", "dead", "down", "unhealthy", "no":
		return red + word + plain
	}
	return word
}

func (c *Call) colour() bool {
	return !c.Bool("no-color") && os.Getenv("NO_COLOR") == "" && c.terminalWidth() > 0
}

// grid has the rows of a table.
type grid [][]string

func (g *grid) add(cells ...string) { *g = append(*g, cells) }

// table writes rows under their titles, which | separates. It omits empty columns and fits the table into a
// terminal (see narrow, fit).
func (c *Call) table(titles string, rows grid) {
	all := withoutEmpty(append(grid{strings.Split(titles, "|")}, rows...))
	for _, row := range all {
		for i, cell := range row {
			row[i] = oneLine(structs.Printable(cell))
		}
	}
	all, texts := narrow(all, c.terminalWidth())
	widths := widthsOf(all)
	fit(widths, neverCut(all[0]), c.terminalWidth())
	colour := c.colour()
	for n, row := range all {
		var line strings.Builder
		for i, cell := range row {
			text := cut(cell, widths[i])
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+2)
			if colour && n > 0 {
				text = paint(text)
			}
			line.WriteString(text + gap)
		}
		fmt.Fprintln(c.Out, strings.TrimRight(line.String(), " "))
		if n > 0 && texts != nil && texts[n] != "" {
			fmt.Fprintf(c.Out, "  %s: %s\n", texts[0], texts[n])
		}
	}
}

// Titles of columns. A narrow terminal does not show the spare ones. It drops them in this order. A text
// loses its meaning when it is cut.
var (
	spareTitles = []string{"Protocol", "Modified"}
	textTitles  = []string{"Waits For", "Last Error", "Description", "Message", "Details", "Cause"}
)

// narrow removes columns from a table that is wider than width. It first removes spare columns, then a last
// column of texts, which it returns for lines below the rows. Width 0 is unlimited.
func narrow(all grid, width int) (rows grid, texts []string) {
	for _, title := range spareTitles {
		if at := slices.Index(all[0], title); at >= 0 && tooWide(all, width) {
			all = withoutColumn(all, at)
		}
	}
	last := len(all[0]) - 1
	if last == 0 || !tooWide(all, width) || !slices.Contains(textTitles, all[0][last]) {
		return all, nil
	}
	for _, row := range all {
		texts = append(texts, row[last])
	}
	return withoutColumn(all, last), texts
}

func withoutColumn(all grid, at int) (out grid) {
	for _, row := range all {
		out = append(out, slices.Delete(slices.Clone(row), at, at+1))
	}
	return out
}

func tooWide(all grid, width int) bool { return width > 0 && total(widthsOf(all)) > width }

func widthsOf(all grid) []int {
	widths := make([]int, len(all[0]))
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// total returns the width of a table with the gaps between its columns.
func total(widths []int) int {
	sum := 2 * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// neverCut marks the columns that are never cut. A user could not type the ID of a cut one.
func neverCut(titles []string) (whole []bool) {
	for _, t := range titles {
		whole = append(whole, t == "ID" || strings.HasSuffix(t, " ID") || t == "Node" || t == "Allocation")
	}
	return whole
}

// fit narrows the widest columns until the table fits into width. It does not narrow those that must stay
// whole. Width 0 is unlimited.
func fit(widths []int, whole []bool, width int) {
	const narrowest = 8
	if width == 0 {
		return
	}
	for over := total(widths) - width; over > 0; over-- {
		widest := -1
		for i, w := range widths {
			if !whole[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 || widths[widest] <= narrowest {
			return
		}
		widths[widest]--
	}
}

// withoutEmpty removes the columns that are empty in all rows below the titles.
func withoutEmpty(all grid) grid {
	for i := len(all[0]) - 1; i >= 0; i-- {
		filled := func(row []string) bool { return row[i] != "" }
		if !slices.ContainsFunc(all[1:], filled) {
			all = withoutColumn(all, i)
		}
	}
	return all
}

func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}

// oneLine replaces line breaks and other white space by single blanks.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// pairs writes names, each with the value that follows it. It omits names with an empty value.
func (c *Call) pairs(namesAndValues ...string) {
	var shown grid
	width := 0
	for pair := range slices.Chunk(namesAndValues, 2) {
		if pair[1] != "" {
			shown = append(shown, pair)
			width = max(width, len(pair[0]))
		}
	}
	colour := c.colour()
	for _, pair := range shown {
		value := structs.Printable(pair[1])
		if colour {
			value = paint(value)
		}
		fmt.Fprintf(c.Out, "%-*s = %s\n", width, pair[0], value)
	}
}

// section writes a title and a table, or "none" if the table has no rows.
func (c *Call) section(title, titles string, rows grid) {
	c.Printf("\n%s\n", title)
	if len(rows) == 0 {
		c.Printf("none\n")
		return
	}
	c.table(titles, rows)
}
