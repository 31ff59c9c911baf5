package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/cli/command"
)

// TestRemedies_AreCommands parses each command that an explanation names: as the next thing to do, or in a
// reason.
func TestRemedies_AreCommands(t *testing.T) {
	text, err := os.ReadFile("../scheduler/explain/testdata/why.golden")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		for strings.Contains(line, "berth ") {
			_, line, _ = strings.Cut(line, "berth ")
			found[remedyEnd.Split(line, 2)[0]] = true
		}
	}
	for remedy := range found {
		args := slices.Collect(words(remedy))
		if args[0] == "agent" { // package agent has it
			continue
		}
		c, args := findCommand(Tree(), args)
		if c == nil {
			t.Errorf("there is no command berth %s", remedy)
			continue
		}
		call := &command.Call{Command: c}
		err := call.Parse(args)
		if err == nil {
			err = command.CheckArgs(c.Args, call.Args)
		}
		if err != nil {
			t.Errorf("berth %s: %v", remedy, err)
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
func findCommand(tree []command.Command, args []string) (*command.Command, []string) {
	for i, name := range args {
		at := slices.IndexFunc(tree, func(c command.Command) bool { return c.Name == name })
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

// TestRemedies_NameCommandsInTheSource: each command in a constant of the packages that explain exists, also
// one that no situation shows. The arguments of most are known only when they run.
func TestRemedies_NameCommandsInTheSource(t *testing.T) {
	files, err := filepath.Glob("../scheduler/explain/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range append(files, "../state/csi/claim_blockers.go", "../state/csi/call.go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for n := range ast.Preorder(file) {
			for _, command := range commandsOf(n) {
				found++
				if begun[command] {
					continue
				}
				if c, _ := findCommand(Tree(), strings.Fields(command)); c == nil {
					t.Errorf("%s: there is no command berth %s", name, command)
				}
			}
		}
	}
	if found < 40 {
		t.Errorf("%d commands, want those of all remedies", found)
	}
}

// begun are the constants that end before the name of a command, and those of package agent.
var begun = map[string]bool{
	"":        true,
	"volume ": true,

	"agent -client -servers HOST:PORT": true,
}

// commandsOf returns the commands in a constant, and that of a call which makes one for a namespace.
func commandsOf(n ast.Node) (commands []string) {
	switch n := n.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(n.Value)
		for strings.Contains(text, "berth ") {
			_, text, _ = strings.Cut(text, "berth ")
			commands = append(commands, remedyEnd.Split(text, 2)[0])
		}
	case *ast.CallExpr:
		name, _ := n.Fun.(*ast.Ident)
		if name == nil || name.Name != "command" || len(n.Args) < 2 {
			return nil
		}
		if verb, ok := n.Args[1].(*ast.BasicLit); ok {
			text, _ := strconv.Unquote(verb.Value)
			commands = append(commands, text)
		}
	}
	return commands
}

// Each command exists that berth names in place of one of the dialect.
func TestAbsentCommands_NameCommandsThatExist(t *testing.T) {
	source, err := os.ReadFile("command/absent.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`berth ([^`]+)`").FindAllStringSubmatch(string(source), -1)
	for _, m := range named {
		level := Tree()
		for word := range strings.FieldsSeq(m[1]) {
			at := slices.IndexFunc(level, func(c command.Command) bool { return c.Name == word })
			if at >= 0 {
				level = level[at].Sub
			} else if word[0] != '-' && m[1] != "operator snapshot state" { // package agent has it
				t.Errorf("there is no command berth %s", m[1])
			}
		}
	}
	if len(named) < 10 {
		t.Errorf("%d commands, want those of all sentences", len(named))
	}
}
