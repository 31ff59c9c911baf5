package refdocs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stuckStates writes the page of the states in which something waits. They are the situations that the
// tests of scheduler/explain make, with the answers that these tests expect.
func stuckStates(t *testing.T) string {
	path := filepath.Join("..", "..", "scheduler", "explain", "testdata", "why.golden")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	var b strings.Builder
	b.WriteString("# Why something waits\n\n" +
		"`berth job why` and `berth volume why` name the causes and the next steps. This page lists the states that they\n" +
		"know. The names in the answers are examples: job web, group g, task t, volume vol, plugin pl, nodes n0 and n1. Of\n" +
		"each answer only the first cause is here, with the next steps of all.\n\n" +
		"| state | the answer | next steps |\n|---|---|---|\n")
	for situation := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		name, answer, _ := strings.Cut(situation, "\n")
		name = strings.TrimPrefix(name, "== ")
		cause, steps := causeAndSteps(answer)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(name), cell(cause), cell(strings.Join(steps, "; ")))
	}
	return b.String()
}

// causeAndSteps returns the first chain of causes of an answer, from the top to the deepest one, and the
// steps of all causes.
func causeAndSteps(answer string) (cause string, steps []string) {
	var chain []string
	depth := -1
	ended := false // the first chain
	for line := range strings.Lines(answer) {
		text := strings.TrimLeft(line, " ")
		indent := len(line) - len(text)
		text = strings.TrimSpace(text)
		step, isStep := strings.CutPrefix(text, "-> ")
		switch {
		case isStep:
			if !slices.Contains(steps, step) {
				steps = append(steps, step)
			}
		case ended || indent <= depth: // the next cause
			ended = true
		default:
			chain = append(chain, text)
			depth = indent
		}
	}
	return strings.Join(chain, ": "), steps
}

// cell makes a text fit for a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text)
}
