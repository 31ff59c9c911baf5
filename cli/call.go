package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/template"
	"time"

	"berth/api"
	"berth/structs"
)

// FlagKind is what a flag takes.
type FlagKind int

// The kinds of flags.
const (
	Bool FlagKind = iota
	String
	Strings // may be given more than once
	Duration
)

// Flag is an option of a command, given as -name, -name value or -name=value, anywhere on the line.
type Flag struct {
	Name    string
	Kind    FlagKind
	Value   string // what usage calls its value
	Default string
	Usage   string
}

// The options of every command that calls an agent, and of those that render what they were answered.
var (
	commonFlags = []Flag{
		{Name: "address", Kind: String, Value: "url", Usage: "The agent to call, http://host:port or unix:///path. Default: BERTH_ADDR, else " + api.DefaultAddress},
		{Name: "namespace", Kind: String, Value: "name", Usage: "The namespace. Default: BERTH_NAMESPACE, else default"},
		{Name: "region", Kind: String, Value: "name", Usage: "The region. Default: BERTH_REGION, else the agent's own"},
	}
	renderFlags = []Flag{
		{Name: "json", Kind: Bool, Usage: "Show the API's answer as JSON"},
		{Name: "t", Kind: String, Value: "template", Usage: "Show the API's answer through a Go template"},
		{Name: "no-color", Kind: Bool, Usage: "No colours. They are used on a terminal only, and not where NO_COLOR is set"},
	}
)

// errHelp says that help was asked for.
var errHelp = errors.New("help")

// Call is one run of a command.
type Call struct {
	Stdio
	Args   []string // those that are not flags
	cmd    *Command
	values map[string][]string
	client *api.Client
}

// flags are all the options of the command.
func (cmd *Command) flags() []Flag {
	flags := append([]Flag(nil), cmd.Flags...)
	if cmd.Renders {
		flags = append(flags, renderFlags...)
	}
	if !cmd.Local {
		flags = append(flags, commonFlags...)
	}
	return flags
}

// parse splits arguments into flags and others; after -- there are only others.
func (c *Call) parse(args []string) error {
	c.Args, c.values = nil, map[string][]string{}
	flags := c.cmd.flags()
	for i := 0; i < len(args); i++ {
		arg := args[i]
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
			return fmt.Errorf("there is no option -%s", name)
		}
		if f.Kind == Bool && !given {
			value = "true"
		} else if !given {
			if i++; i == len(args) {
				return fmt.Errorf("the option -%s needs a value", name)
			}
			value = args[i]
		}
		if err := c.set(f, value); err != nil {
			return err
		}
	}
	return nil
}

func findFlag(flags []Flag, name string) *Flag {
	for i := range flags {
		if flags[i].Name == name {
			return &flags[i]
		}
	}
	return nil
}

func (c *Call) set(f *Flag, value string) error {
	switch f.Kind {
	case Bool:
		if value != "true" && value != "false" {
			return fmt.Errorf("the option -%s is %q, expected true or false", f.Name, value)
		}
	case Duration:
		if _, err := time.ParseDuration(value); err != nil {
			return fmt.Errorf("the option -%s is %q, expected a duration such as 30s", f.Name, value)
		}
	case Strings:
		c.values[f.Name] = append(c.values[f.Name], value)
		return nil
	}
	c.values[f.Name] = []string{value}
	return nil
}

// all are the values given to a flag of the command, or its default. A flag that the command does not have
// is a mistake in the program.
func (c *Call) all(name string) []string {
	f := findFlag(c.cmd.flags(), name)
	if f == nil {
		panic(fmt.Sprintf("the command %s has no flag -%s", c.cmd.Name, name))
	}
	if v := c.values[name]; len(v) > 0 {
		return v
	}
	if f.Default != "" {
		return []string{f.Default}
	}
	return nil
}

// Strings are the values of a flag that may be given more than once.
func (c *Call) Strings(name string) []string { return c.all(name) }

// String is the value of a flag.
func (c *Call) String(name string) string {
	if v := c.all(name); len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// Bool reports whether a flag is on.
func (c *Call) Bool(name string) bool { return c.String(name) == "true" }

// Duration is the value of a flag.
func (c *Call) Duration(name string) time.Duration {
	d, _ := time.ParseDuration(c.String(name)) // checked when it was parsed
	return d
}

// Arg is the argument at a place, "" if there is none.
func (c *Call) Arg(i int) string {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return ""
}

// API is the client that the flags ask for.
func (c *Call) API() *api.Client {
	if c.client == nil {
		c.client = api.NewClient(api.ClientConfig{
			Address:   c.String("address"),
			Namespace: orEnv(c.String("namespace"), "BERTH_NAMESPACE"),
			Region:    orEnv(c.String("region"), "BERTH_REGION"),
			Token:     os.Getenv("BERTH_TOKEN"),
		})
	}
	return c.client
}

func orEnv(value, name string) string {
	if value != "" {
		return value
	}
	return os.Getenv(name)
}

func (c *Call) close() {
	if c.client != nil {
		c.client.Close()
	}
}

// Printf writes to the standard output.
func (c *Call) Printf(format string, args ...any) { fmt.Fprintf(c.Out, format, args...) }

// show renders an answer: as -json or -t ask for, else as people like it.
func (c *Call) show(answer any, human func() error) error {
	switch {
	case c.Bool("json"):
		enc := json.NewEncoder(c.Out)
		enc.SetIndent("", "    ")
		return enc.Encode(answer)
	case c.String("t") != "":
		return renderTemplate(c.Out, c.String("t"), answer)
	}
	return human()
}

var templateFuncs = template.FuncMap{
	"json": func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	},
	"join":  func(list []string, sep string) string { return strings.Join(list, sep) },
	"short": structs.ShortID,
}

func renderTemplate(w io.Writer, text string, answer any) error {
	t, err := template.New("-t").Funcs(templateFuncs).Parse(text)
	if err != nil {
		return structs.Errorf(structs.KindInvalid, "the template makes no sense: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, answer); err != nil {
		return structs.Errorf(structs.KindInvalid, "the template does not fit the answer: %w", err)
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(b.String(), "\n"))
	return err
}

// readFile reads a file, or the standard input for "-".
func (c *Call) readFile(name string) ([]byte, error) {
	if name == "-" {
		b, err := io.ReadAll(c.In)
		if err != nil {
			return nil, structs.Errorf(structs.KindInvalid, "reading the standard input: %w", err)
		}
		return b, nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, structs.Errorf(structs.KindInvalid, "%w", err)
	}
	return b, nil
}
