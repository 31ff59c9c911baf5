package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/template"

	"berth/api"
	"berth/structs"
)

// Call is one run of a command.
type Call struct {
	Stdio
	Args   []string // those that are not flags
	cmd    *Command
	values map[string][]string
	client *api.Client
	// answers is the standard output of a command that acts with -json; Out is the standard error then.
	answers io.Writer
}

// answered writes the outcome of a command that acts, if -json asks for it: the answer of the API or, where
// that says nothing, the names of the things that changed.
func (c *Call) answered(answer any) error {
	if c.answers == nil {
		return nil
	}
	enc := json.NewEncoder(c.answers)
	enc.SetIndent("", "    ")
	return enc.Encode(answer)
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

// Printf writes to the standard output, for people.
func (c *Call) Printf(format string, args ...any) { fmt.Fprintf(printable{c.Out}, format, args...) }

// show renders an answer: as -json or -t ask for, else as people like it.
func (c *Call) show(answer any, human func() error) error {
	switch {
	case c.Bool("json"):
		return c.showJSON(answer)
	case c.String("t") != "":
		return renderTemplate(c.templated(), c.String("t"), answer)
	}
	return human()
}

// templated is the output of templates: programs get the answer of the API as it is, a terminal gets escapes.
func (c *Call) templated() io.Writer {
	if c.terminalWidth() > 0 {
		return printable{c.Out}
	}
	return c.Out
}

func (c *Call) showJSON(answer any) error {
	enc := json.NewEncoder(c.Out)
	enc.SetIndent("", "    ")
	return enc.Encode(answer)
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
