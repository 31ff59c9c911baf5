// Package cli is the command line: one tree of commands. tree.go lists the nouns, and
// the file of a noun lists its verbs.
//
// Its laws:
//
//   - A command calls the HTTP API, like any other client, and knows nothing of servers. Those marked Local
//     call nothing: they read files.
//   - An error is one message on the standard error; the exit code is that of its kind, 2 for wrong usage.
//   - -json and -t show what the API answered; everything else is for people and may change.
//   - IDs that are UUIDs may be cut short wherever the rest is not needed; names may not where something
//     is stopped or deleted.
//
// Commands that run a process of berth itself (agent, plugin) are brought by their packages.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"berth/internal/suggest"
	"berth/structs"
)

// Stdio is where a command reads and writes.
type Stdio struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Command is a command, or a group of them (Sub).
type Command struct {
	Name     string
	Synopsis string // one line, without a full stop
	Args     string // as usage shows them: <needed> [optional], an ellipsis after the last for more of it
	Help     string // paragraphs and examples
	Flags    []Flag
	Local    bool     // calls no agent: has no -address and the like
	Renders  bool     // has -json and -t
	Acts     bool     // changes something or writes a file: has -json, and Run calls answered
	Hidden   bool     // is in no help
	Examples []string // command lines
	Group    string
	Run      func(ctx context.Context, c *Call) error
	Sub      []Command
}

// usageError is a command line that makes no sense.
type usageError struct {
	text string
	path string // of the command whose help would help
}

func (e *usageError) Error() string { return e.text }

// exitUsage is the exit code of wrong usage.
const exitUsage = 2

// Run runs the command that the arguments (without the program's name) ask for and returns its exit code.
func Run(ctx context.Context, args []string, std Stdio, extra ...Command) int {
	std.Err = printable{std.Err}
	root := Command{Name: "berth", Sub: merge(tree(), extra)}
	root.Sub = append(root.Sub, completer(&root))
	err := root.run(ctx, "berth", args, std)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(std.Err, "Error: %s\nRun \"%s -h\" for help.\n", usage.text, usage.path)
		return exitUsage
	}
	fmt.Fprintf(std.Err, "Error: %s\n", strings.TrimSpace(err.Error()))
	return structs.KindOf(err).ExitCode()
}

// merge adds commands to a tree; a group that is there already gets the new one's commands.
func merge(tree, extra []Command) []Command {
	for _, e := range extra {
		at := slices.IndexFunc(tree, func(c Command) bool { return c.Name == e.Name })
		if at < 0 {
			tree = append(tree, e)
			continue
		}
		tree[at].Sub = merge(tree[at].Sub, e.Sub)
	}
	return tree
}

// run descends to the command that the arguments name.
func (cmd *Command) run(ctx context.Context, path string, args []string, std Stdio) error {
	if cmd.Run != nil {
		return cmd.call(ctx, path, args, std)
	}
	if len(args) > 1 && args[0] == "help" { // help job run
		args = append(slices.Clone(args[1:]), "-h")
	}
	if len(args) == 0 || isHelp(args[0]) {
		cmd.printGroup(std.Out, path)
		return nil
	}
	name := args[0]
	if name == "-version" || name == "--version" || name == "-v" {
		name = "version"
	}
	for i := range cmd.Sub {
		if cmd.Sub[i].Name == name {
			return cmd.Sub[i].run(ctx, path+" "+name, args[1:], std)
		}
	}
	if strings.HasPrefix(name, "-") {
		return &usageError{
			fmt.Sprintf("the option %s stands before the command; options come after it", name),
			path,
		}
	}
	text := fmt.Sprintf("there is no command %q", strings.TrimPrefix(path+" "+name, "berth "))
	if near := suggest.Closest(name, namesOf(cmd.Sub)); near != "" {
		text += fmt.Sprintf("; did you mean %q?", strings.TrimPrefix(path+" "+near, "berth "))
	}
	return &usageError{text, path}
}

func isHelp(arg string) bool {
	return arg == "-h" || arg == "-help" || arg == "--help" || arg == "help"
}

// call parses the arguments of a command and runs it.
func (cmd *Command) call(ctx context.Context, path string, args []string, std Stdio) error {
	c := &Call{Stdio: std, cmd: cmd}
	if err := c.parse(args); err != nil {
		if errors.Is(err, errHelp) {
			cmd.printHelp(std.Out, path)
			return nil
		}
		return &usageError{err.Error(), path}
	}
	if err := checkArgs(cmd.Args, c.Args); err != nil {
		return &usageError{err.Error(), path}
	}
	if cmd.Renders && c.Bool("json") && c.String("t") != "" {
		return &usageError{"-json and -t exclude each other", path}
	}
	if cmd.Acts && c.Bool("json") {
		c.answers = c.Out
		c.Out = c.Err
	}
	defer c.close()
	err := cmd.Run(ctx, c)
	var usage *usageError
	if errors.As(err, &usage) && usage.path == "" {
		usage.path = path
	}
	return err
}

// badUsage is a command line whose parts do not go together.
func badUsage(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// checkArgs compares arguments with the words of a usage line.
func checkArgs(spec string, args []string) error {
	words := strings.Fields(spec)
	needed := 0
	for _, w := range words {
		if strings.HasPrefix(w, "<") {
			needed++
		}
	}
	switch {
	case len(args) < needed:
		return fmt.Errorf("%s is missing", words[len(args)])
	case len(args) > len(words) && !strings.HasSuffix(spec, "..."):
		return fmt.Errorf("the argument %q is one too many", args[len(words)])
	}
	return nil
}

func namesOf(cmds []Command) []string {
	var names []string
	for _, c := range cmds {
		names = append(names, c.Name)
	}
	return names
}
