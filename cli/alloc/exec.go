package alloc

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/term"

	"berth/api"
	"berth/cli/command"
	"berth/cli/watch"
)

// execFlags are the options of alloc exec.
var execFlags = append([]command.Flag{
	{
		Name:  "task",
		Kind:  command.String,
		Value: "name",
		Usage: "The task. Default: the only one of the allocation, or its leader",
	},
}, SessionFlags...)

// SessionFlags are the options of commands that RunSession runs.
var SessionFlags = []command.Flag{
	{Name: "i", Default: "true", Usage: "Pass the standard input on to the command"},
	{
		Name:  "t",
		Usage: "Give the command a terminal. Default: true if the standard input and output are terminals and -i is true",
	},
	{
		Name:    "e",
		Kind:    command.String,
		Value:   "char",
		Default: "~",
		Usage:   "With a terminal, this character and a dot at the start of a line end the command; none turns that off",
	},
}

const helpExec = `The command has the user, the environment and the root of the task. The exit
code is the command's, or 128 plus the number of the signal that ended it.
Options come before the allocation. The command is killed when this program
ends or loses its connection.`

// allocExec runs a command in a task and ends with its exit code.
func allocExec(ctx context.Context, c *command.Call) error {
	id := ""
	return RunSession(ctx, c, Session{
		Command: c.Args[1:],
		Find: func(ctx context.Context) (err error) {
			id, err = c.Resolve(ctx, "alloc", c.Arg(0))
			return err
		},
		Open: func(ctx context.Context, x *api.Exec) (run Running, err error) {
			err = watch.New(c).Await(ctx, NodeOf(id), watch.SeeAlloc(c, id), func() (err error) {
				run, err = api.OpenExec(ctx, c.API, id, c.String("task"), x)
				return err
			})
			return run, err
		},
	})
}

// Running waits for the end of a command in a task, and returns its exit code.
type Running = func(context.Context) (exitCode int, err error)

// Session says how a command runs in a task.
type Session struct {
	Command []string
	Find    func(context.Context) error // finds the task, before the terminal changes
	Open    func(context.Context, *api.Exec) (Running, error)
}

// RunSession runs a command in a task with the options SessionFlags, and ends with its exit code. It waits
// for the end of the command, or for the escape character, which ends it with an error. The terminal is
// restored on each of these ways.
func RunSession(ctx context.Context, c *command.Call, s Session) error {
	escape, err := escapeCharacter(c.String("e"))
	if err != nil {
		return err
	}

	err = s.Find(ctx)
	if err != nil {
		return err
	}

	x := &api.Exec{
		Command: s.Command,
		TTY:     wantsTerminal(c),
		Stdout:  c.Out,
		Stderr:  unescaped(c.Err),
	}

	if c.Bool("i") {
		x.Stdin = c.In
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	user := terminalOf(x.Stdin)
	if x.TTY && user != nil {
		restore, err := enterRawMode(user)
		if err != nil {
			return err
		}
		defer restore()

		sizes, stop := followSize(user)
		defer stop()
		x.Resize = sizes
		c.Err = rawLines{x.Stderr}
		x.Stdin = newEscapeReader(x.Stdin, escape, func() { cancel(errEscaped) })
	}

	code := 0
	run, err := s.Open(ctx, x)
	if err == nil {
		code, err = run(ctx)
	}
	switch {
	case errors.Is(context.Cause(ctx), errEscaped):
		return errEscaped
	case err != nil:
		return err
	case code != 0:
		return command.ExitError(code)
	}

	return nil
}

// wantsTerminal reports whether the command gets a terminal.
func wantsTerminal(c *command.Call) bool {
	if c.Given("t") {
		return c.Bool("t")
	}
	return c.Bool("i") && terminalOf(c.In) != nil && c.TerminalWidth() > 0
}

// terminalOf returns the terminal that a reader is, or nil.
func terminalOf(r io.Reader) *os.File {
	f, ok := r.(*os.File)
	if ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// unescaped returns the writer below a Printable: the output of a command is passed on unchanged.
func unescaped(w io.Writer) io.Writer {
	if p, ok := w.(command.Printable); ok {
		return p.To
	}
	return w
}
