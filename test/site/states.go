package main

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// statesPage is the generated page of the states in which something waits: a heading each.
const statesPage = "docs/reference/stuck.md"

// addStates adds a page for each of the states, so that a search for the words of an answer finds it.
func (s *site) addStates() error {
	text, err := os.ReadFile(filepath.Join(s.repo, statesPage))
	if err != nil {
		return err
	}
	index := "# Why something waits: a page for each state\n\n" +
		"`berth job why` and `berth volume why` give these answers.\n\n"
	for _, state := range statesOf(string(text)) {
		target := "why/" + slug(state.name) + ".md"
		index += fmt.Sprintf("- [%s](%s)\n", state.name, slug(state.name)+".md")
		err := s.put(target, state.page())
		if err != nil {
			return err
		}
	}
	return s.addPage("why/README.md", index)
}

// waitingState is a state in which something waits.
type waitingState struct {
	name, answer string
	steps        []string
}

// statesOf reads the states of the page: a heading, the answer as a quotation, and a list of the next steps.
func statesOf(text string) (states []waitingState) {
	for _, section := range strings.Split(text, "\n## ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		state := waitingState{name: name}
		for line := range strings.Lines(body) {
			line = html.UnescapeString(strings.TrimSpace(line))
			answer, isAnswer := strings.CutPrefix(line, "> ")
			step, isStep := strings.CutPrefix(line, "- ")
			switch {
			case isAnswer:
				state.answer = answer
			case isStep:
				state.steps = append(state.steps, step)
			}
		}
		states = append(states, state)
	}
	return states
}

// page returns the page of a state.
func (w waitingState) page() string {
	steps := "Nothing is to be done."
	if len(w.steps) > 0 {
		steps = "    " + strings.Join(w.steps, "\n    ")
	}
	return fmt.Sprintf("# Why: %s\n\n## The answer\n\n    %s\n\n## Next steps\n\n%s\n\n"+
		"The names are examples: job web, group g, task t, volume vol, plugin pl, nodes n0 and n1. See "+
		"[all states](README.md) and [troubleshoot](../operations/troubleshoot.md).\n", w.name, w.answer, steps)
}

var noWord = regexp.MustCompile(`[^a-z0-9]+`)

// slug makes the name of a file from a state.
func slug(state string) string {
	return strings.Trim(noWord.ReplaceAllString(strings.ToLower(state), "-"), "-")
}
