package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRemedies_AreCommands parses each command that an explanation names as the next thing to do.
func TestRemedies_AreCommands(t *testing.T) {
	text, err := os.ReadFile("../scheduler/explain/testdata/why.golden")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		remedy, isRemedy := strings.CutPrefix(strings.TrimSpace(line), "-> ")
		for isRemedy && strings.Contains(remedy, "berth ") {
			_, remedy, _ = strings.Cut(remedy, "berth ")
			found[remedyEnd.Split(remedy, 2)[0]] = true
		}
	}
	for command := range found {
		args := slices.Collect(words(command))
		if args[0] == "agent" { // package agent has it
			continue
		}
		c, args := findCommand(Tree(), args)
		if c == nil {
			t.Errorf("there is no command berth %s", command)
			continue
		}
		call := &Call{cmd: c}
		err := call.parse(args)
		if err == nil {
			err = checkArgs(c.Args, call.Args)
		}
		if err != nil {
			t.Errorf("berth %s: %v", command, err)
		}
	}
	if len(found) < 30 {
		t.Errorf("%d commands, want those of all remedies", len(found))
	}
}

// remedyEnd ends a command in a sentence.
var remedyEnd = regexp.MustCompile(`;|,| shows | \(|\n`)

// words yields the words of a command, of which those in quotes are one.
func words(command string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i, part := range strings.Split(command, `"`) {
			all := strings.Fields(part)
			if i%2 == 1 {
				all = []string{part}
			}
			for _, w := range all {
				if !yield(w) {
					return
				}
			}
		}
	}
}

// findCommand returns the command that the first words name, nil if there is none, and its arguments.
func findCommand(tree []Command, args []string) (*Command, []string) {
	for i, name := range args {
		at := slices.IndexFunc(tree, func(c Command) bool { return c.Name == name })
		if at < 0 {
			break
		}
		if tree[at].Run != nil {
			return &tree[at], args[i+1:]
		}
		tree = tree[at].Sub
	}
	return nil, nil
}
