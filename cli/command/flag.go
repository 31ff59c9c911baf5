package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/spelling"
)

// FlagKind is the type of a flag's value.
type FlagKind int

// The kinds of flags.
const (
	Bool FlagKind = iota // of a flag without a kind
	String
	Strings // may be repeated
	Number  // a whole number that is not negative
	Duration
)

// Flag is an option of a command, given as -name, -name value or -name=value, anywhere on the line.
type Flag struct {
	Name    string
	Kind    FlagKind
	Value   string // the name of its value in usage
	Default string
	Usage   string
}

// Head returns the flag with the name of its value, as in help.
func (f *Flag) Head() string {
	if f.Kind == Bool {
		return "-" + f.Name
	}
	return "-" + f.Name + " <" + f.Value + ">"
}

// About returns the description of the flag with its default, as in help.
func (f *Flag) About() string {
	if f.Default == "" {
		return f.Usage
	}
	return f.Usage + ". Default: " + f.Default
}

// The options of commands: of all that render an answer, and of all that change something.
var (
	RenderFlags = []Flag{
		{Name: "json", Usage: "Show the API's answer as JSON"},
		{
			Name:  "t",
			Kind:  String,
			Value: "template",
			Usage: "Show the API's answer through a Go template",
		},
		NoColorFlag,
	}
	// NoColorFlag is for commands that act and show a table.
	NoColorFlag = Flag{
		Name:  "no-color",
		Usage: "No colours. Only a terminal has colours, and only if NO_COLOR is not set",
	}
	ActFlags = []Flag{
		{Name: "json", Usage: "Write the outcome as JSON; other messages go to the standard error"},
	}
)

// errHelp reports that the arguments ask for help.
var errHelp = errors.New("help")

// ownFlags returns the options of the command without the common ones.
func (cmd *Command) ownFlags() []Flag {
	flags := slices.Clone(cmd.Flags)
	if cmd.Renders {
		flags = append(flags, RenderFlags...)
	}
	if cmd.Acts {
		flags = append(flags, ActFlags...)
	}
	return flags
}

// AllFlags returns all options of the command.
func (cmd *Command) AllFlags() []Flag {
	flags := cmd.ownFlags()
	if !cmd.Local {
		flags = append(flags, CommonFlags...)
	}
	return flags
}

// Parse separates flags from arguments. No flag follows "--", or the first argument of a Verbatim command.
func (c *Call) Parse(args []string) error {
	c.Args = nil
	c.values = map[string][]string{}
	flags := c.Command.AllFlags()
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if c.Command.Verbatim && len(c.Args) > 0 && arg != "--" {
			c.Args = append(c.Args, args[i:]...)
			return nil
		}

		if arg == "--" {
			c.Args = append(c.Args, args[i+1:]...)
			return nil
		}

		if !strings.HasPrefix(arg, "-") || arg == "-" {
			c.Args = append(c.Args, arg)
			continue
		}

		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if isHelp("-" + name) {
			return errHelp
		}

		f := findFlag(flags, name)
		if f == nil {
			return unknownOption(flags, name)
		}

		if f.Kind == Bool && !given {
			value = "true"
		} else if !given {
			i++
			if i == len(args) {
				return fmt.Errorf("the option -%s needs a value", name)
			}

			value = args[i]
		}

		if err := c.setFlag(f, value); err != nil {
			return err
		}
	}

	return nil
}

func unknownOption(flags []Flag, name string) error {
	var names []string
	for _, f := range flags {
		names = append(names, f.Name)
	}
	if near := spelling.Closest(name, names); near != "" {
		return fmt.Errorf("there is no option -%s; did you mean -%s?", name, near)
	}
	return fmt.Errorf("there is no option -%s", name)
}

func findFlag(flags []Flag, name string) *Flag {
	for i := range flags {
		if flags[i].Name == name {
			return &flags[i]
		}
	}
	return nil
}

func (c *Call) setFlag(f *Flag, value string) error {
	expected := ""
	switch f.Kind {
	case Bool:
		if value != "true" && value != "false" {
			expected = "true or false"
		}
	case Number:
		if _, err := strconv.ParseUint(value, 10, 63); err != nil {
			expected = "a whole number"
		}
	case Duration:
		if _, err := time.ParseDuration(value); err != nil {
			expected = "a duration such as 30s"
		}
	}

	if expected != "" {
		return fmt.Errorf("the option -%s is %q, expected %s", f.Name, value, expected)
	}

	c.values[f.Name] = append(c.values[f.Name], value)
	return nil
}

// flag returns a flag of the command. It panics if the command does not have the flag.
func (c *Call) flag(name string) *Flag {
	f := findFlag(c.Command.AllFlags(), name)
	if f == nil {
		panic(fmt.Sprintf("the command %s has no flag -%s", c.Command.Name, name))
	}
	return f
}

// Given reports whether a flag is on the command line.
func (c *Call) Given(name string) bool {
	return len(c.values[c.flag(name).Name]) > 0
}

// Strings returns the values of a flag that may be repeated.
func (c *Call) Strings(name string) []string {
	return c.values[c.flag(name).Name]
}

// String returns the value of a flag, or its default.
func (c *Call) String(name string) string {
	f := c.flag(name)
	v := c.values[name]
	if len(v) > 0 {
		return v[len(v)-1]
	}
	return f.Default
}

// Bool reports whether a flag is true.
func (c *Call) Bool(name string) bool {
	return c.String(name) == "true"
}

// Number returns the value of a flag.
func (c *Call) Number(name string) int64 {
	n, _ := strconv.ParseInt(c.String(name), 10, 64) // setFlag has checked it
	return n
}

// Duration returns the value of a flag.
func (c *Call) Duration(name string) time.Duration {
	d, _ := time.ParseDuration(c.String(name)) // setFlag has checked it
	return d
}
