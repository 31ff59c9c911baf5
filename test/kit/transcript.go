package kit

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TranscriptStep is a command of a transcript.
type TranscriptStep struct {
	Line  int // in the file, from 1
	Name  string
	Args  []string
	Input string
}

// Arg returns the value of an argument name=value, "" if there is none.
func (s *TranscriptStep) Arg(name string) string {
	for _, a := range s.Args {
		value, ok := strings.CutPrefix(a, name+"=")
		if ok {
			return value
		}
	}
	return ""
}

// Has reports whether a word is among the arguments.
func (s *TranscriptStep) Has(word string) bool {
	for _, a := range s.Args {
		if a == word {
			return true
		}
	}
	return false
}

const dashes = "----"

// RunTranscript runs the steps of a file and compares their output. With rewrite it writes the output into
// the file. The files are also documentation. A step has a command with arguments, lines of input if the
// command has some, a line of four dashes and the output, which ends at an empty line:
//
//	# A comment, which belongs to the step below it.
//	job web count=3
//	----
//	registered as version 0
func RunTranscript(t *testing.T, path string, rewrite bool, run func(*TranscriptStep) string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	var out strings.Builder
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for at := 0; at < len(lines); {
		line := lines[at]
		if line == "" || strings.HasPrefix(line, "#") {
			fmt.Fprintln(&out, line)
			at++
			continue
		}

		step, want, next := readStep(t, path, lines, at)
		got := strings.TrimRight(run(step), "\n")
		if got != want && !rewrite {
			t.Errorf("%s:%d: %s\ngot:\n%s\nwant:\n%s", path, step.Line, line, got, want)
		}

		fmt.Fprintln(&out, strings.Join(lines[at:next.output], "\n"))
		if got != "" {
			fmt.Fprintln(&out, got)
		}

		at = next.step
	}

	if rewrite && out.String() != string(text) {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// position has the first line of a step's output, and of the next step.
type position struct{ output, step int }

func readStep(t *testing.T, path string, lines []string, at int) (
	s *TranscriptStep, want string, next position,
) {
	t.Helper()
	words := strings.Fields(lines[at])
	s = &TranscriptStep{Line: at + 1, Name: words[0], Args: words[1:]}
	i := at + 1
	for i < len(lines) && lines[i] != dashes && lines[i] != "" {
		i++
	}

	if i == len(lines) || lines[i] != dashes {
		t.Fatalf("%s:%d: the step has no line %s before its output", path, at+1, dashes)
	}

	s.Input = strings.Join(lines[at+1:i], "\n")
	next.output = i + 1
	for i++; i < len(lines) && lines[i] != ""; i++ {
	}

	next.step = i
	return s, strings.Join(lines[next.output:i], "\n"), next
}
