package main

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// statesPage is the generated table of the states in which something waits.
const statesPage = "docs/reference/stuck.md"

// addStates adds a page for each of the states, so that a search for the words of an answer finds it.
func (s *site) addStates() error {
	text, err := os.ReadFile(filepath.Join(s.repo, statesPage))
	if err != nil {
		return err
	}
	index := "# Why something waits: a page for each state\n\n" +
		"`berth job why` and `berth volume why` give these answers.\n\n"
	for _, row := range rowsOf(string(text)) {
		target := "why/" + slug(row.state) + ".md"
		index += fmt.Sprintf("- [%s](%s)\n", row.state, slug(row.state)+".md")
		err := s.put(target, row.page())
		if err != nil {
			return err
		}
	}
	return s.addPage("why/README.md", index)
}

// stateRow is a row of the table.
type stateRow struct{ state, answer, steps string }

// rowsOf reads the rows of the table: three cells each.
func rowsOf(text string) (rows []stateRow) {
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		isRow := strings.HasPrefix(line, "| ") && len(cells) == 3 && strings.TrimSpace(cells[0]) != "state"
		if !isRow {
			continue
		}
		rows = append(rows, stateRow{
			state:  strings.TrimSpace(cells[0]),
			answer: html.UnescapeString(strings.TrimSpace(cells[1])),
			steps:  html.UnescapeString(strings.TrimSpace(cells[2])),
		})
	}
	return rows
}

// page returns the page of a state.
func (r stateRow) page() string {
	steps := "Nothing is to be done."
	if r.steps != "" {
		steps = "    " + strings.Join(strings.Split(r.steps, "; "), "\n    ")
	}
	return fmt.Sprintf("# Why: %s\n\n## The answer\n\n    %s\n\n## Next steps\n\n%s\n\n"+
		"The names are examples: job web, group g, task t, volume vol, plugin pl, nodes n0 and n1. See "+
		"[all states](README.md) and [troubleshoot](../operations/troubleshoot.md).\n", r.state, r.answer, steps)
}

var noWord = regexp.MustCompile(`[^a-z0-9]+`)

// slug makes the name of a file from a state.
func slug(state string) string {
	return strings.Trim(noWord.ReplaceAllString(strings.ToLower(state), "-"), "-")
}
