// Package command is what the commands of all nouns share: the declaration of a command and its options, the
// call of one with its arguments and the client of the API, and the forms of its output and of its errors.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"berth/internal/spelling"
	"berth/structs"
)

// Stdio has the standard streams of a command.
type Stdio struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Command is a command, or a group of them (Sub).
type Command struct {
	Name     string
	Synopsis string // one line, without a full stop
	Args     string // as in usage: [word] <needed> [optional]; "..." after the last means any number of it
	Help     string // paragraphs and examples
	Flags    []Flag
	Local    bool   // it calls no agent and has no common options
	Renders  bool   // it has -json and -t
	Acts     bool   // it changes something or writes a file; it has -json, and Run calls WriteOutcome
	Hidden   bool   // help does not list it
	Verbatim bool   // all words after the first argument are arguments
	Examples string // command lines
	Group    string
	Same     string // the path of the command of which it is a short form, such as "job run"
	Misuse   int    // the exit code of wrong usage; 0: exitUsage
	// Run carries the command out. The program ends with 0, with the code of the kind of its error
	// (structs.Kind.ExitCode), with the code of an ExitError, or with Misuse. A command that only reads waits
	// for nothing but the answer of the agent.
	Run func(ctx context.Context, c *Call) error
	Sub []Command
}

// usageError reports an invalid command line.
type usageError struct {
	text string
	path string // of the command whose help explains the usage
	code int    // the exit code; 0: exitUsage
}

func (e *usageError) Error() string { return e.text }

// ExitError is the exit code of a program that a command has run. The program has told its user the reason.
type ExitError int

func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// codedError is an error with an exit code of its own in place of its kind's.
type codedError struct {
	error
	code int
}

// Unwrap returns the error without the code.
func (e *codedError) Unwrap() error { return e.error }

// WithExit gives an error an exit code in place of its kind's.
func WithExit(code int, err error) error { return &codedError{err, code} }

// exitUsage is the exit code of wrong usage.
const exitUsage = 2

// Main runs the command of the arguments (without the name of the program) and returns its exit code. The
// command is the root of the tree.
func (cmd *Command) Main(ctx context.Context, args []string, std Stdio) int {
	std.Err = Printable{To: std.Err}
	root := *cmd
	root.Sub = append(slices.Clone(cmd.Sub), completer(&root))
	err := root.run(ctx, root.Name, args, std)
	var usage *usageError
	var exited ExitError
	var ofFiles *fileFaults
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exited):
		return int(exited)
	case errors.As(err, &usage):
		fmt.Fprintf(std.Err, "Error: %s\nRun \"%s -h\" for help.\n",
			usage.text, usage.path)
		return cmp.Or(usage.code, exitUsage)
	}

	if errors.As(err, &ofFiles) {
		ofFiles.write(std.Err)
	} else {
		fmt.Fprintf(std.Err, "Error: %s\n", strings.TrimSpace(err.Error()))
	}

	var coded *codedError
	if errors.As(err, &coded) {
		return coded.code
	}
	return structs.KindOf(err).ExitCode()
}

// run finds the command that the arguments name and runs it.
func (cmd *Command) run(ctx context.Context, path string, args []string, std Stdio) error {
	if cmd.Run != nil {
		err := cmd.invoke(ctx, path, args, std)
		var usage *usageError
		if errors.As(err, &usage) {
			usage.code = cmd.Misuse
		}

		return err
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

	var names []string
	for _, sub := range cmd.Sub {
		if sub.Name == name {
			return sub.run(ctx, path+" "+name, args[1:], std)
		}

		names = append(names, sub.Name)
	}

	if strings.HasPrefix(name, "-") {
		return &usageError{
			text: fmt.Sprintf("the option %s is before the command; options follow the command", name),
			path: path,
		}
	}

	return &usageError{text: noCommand(path, args, spelling.Closest(name, names)), path: path}
}

// noCommand says that a group has no command of the first argument. near is one with a similar name, or "".
func noCommand(path string, args []string, near string) string {
	in := strings.TrimSpace(strings.TrimPrefix(path, "berth"))
	wanted := strings.TrimSpace(in + " " + args[0])
	text := fmt.Sprintf("there is no command %q", wanted)
	instead := insteadOf(strings.TrimSpace(in + " " + strings.Join(args, " ")))
	switch {
	case instead != "":
		text += ": " + instead
	case near != "":
		text += fmt.Sprintf("; did you mean %q?", strings.TrimSpace(in+" "+near))
	}
	return text
}

func isHelp(arg string) bool {
	return arg == "-h" || arg == "-help" || arg == "--help" || arg == "help"
}

// Find returns the command of a tree that a path such as "job run" names. It panics if there is none.
func Find(tree []Command, path string) *Command {
	name, rest, isGroup := strings.Cut(path, " ")
	at := slices.IndexFunc(tree, func(c Command) bool { return c.Name == name })
	if isGroup {
		return Find(tree[at].Sub, rest)
	}
	return &tree[at]
}

// invoke parses the arguments of a command and runs it.
func (cmd *Command) invoke(ctx context.Context, path string, args []string, std Stdio) error {
	c := &Call{Stdio: std, Command: cmd}
	err := c.Parse(args)
	if errors.Is(err, errHelp) {
		cmd.printHelp(std.Out, path)
		return nil
	}
	if err == nil {
		err = CheckArgs(cmd.Args, c.Args)
	}
	if err != nil {
		return &usageError{text: err.Error(), path: path}
	}

	if cmd.Renders &&
		c.Bool("json") &&
		c.String("t") != "" {
		return &usageError{text: "-json and -t exclude each other", path: path}
	}

	if cmd.Acts && c.Bool("json") {
		c.outcome = c.Out
		c.Out = c.Err
	}

	if !cmd.Local {
		c.API = c.newClient()
		defer c.API.Close()
	}

	err = addSocketStep(c, path, cmd.Run(ctx, c))
	var usage *usageError
	if errors.As(err, &usage) && usage.path == "" {
		usage.path = path
	}

	return err
}

// Delegate carries another command out with the arguments and options of a call.
func Delegate(ctx context.Context, c *Call, cmd *Command) error {
	other := &Call{
		Stdio:   c.Stdio,
		Args:    c.Args,
		API:     c.API,
		Command: cmd,
		values:  c.values,
		outcome: c.outcome,
	}
	return cmd.Run(ctx, other)
}

// BadUsage reports options and arguments that exclude or lack each other.
func BadUsage(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// CheckArgs checks the number of arguments against the words of a usage line.
func CheckArgs(spec string, args []string) error {
	words := strings.Fields(spec)
	needed := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word[0] != '<' })
	switch {
	case len(args) < len(needed):
		return fmt.Errorf("%s is missing", needed[len(args)])
	case len(args) > len(words) && !strings.HasSuffix(spec, "..."):
		return fmt.Errorf("the argument %q is not expected", args[len(words)])
	}
	return nil
}
