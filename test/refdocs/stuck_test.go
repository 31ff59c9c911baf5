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
		"each answer only the first cause is here, with the next steps of all.\n")
	for situation := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		name, answer, _ := strings.Cut(situation, "\n")
		name = strings.TrimPrefix(name, "== ")
		cause, steps := causeAndSteps(answer)
		fmt.Fprintf(&b, "\n## %s\n\n> %s\n", strings.ToUpper(name[:1])+name[1:], plain(cause))
		if len(steps) > 0 {
			b.WriteString("\n")
		}
		for _, step := range steps {
			fmt.Fprintf(&b, "- %s\n", plain(step))
		}
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

// plain makes a text one that markdown shows as it is.
func plain(text string) string { return strings.ReplaceAll(text, "<", "&lt;") }
