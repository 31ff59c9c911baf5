package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"berth/api"
	"berth/api/show"
	"berth/api/transport"
	"berth/internal/gotext"
	"berth/structs"
)

// Call is one run of a command.
type Call struct {
	Stdio
	Args    []string    // without the flags
	API     *api.Client // with the common options; nil for a Local command
	Command *Command    // the one that runs
	values  map[string][]string
	// outcome is the standard output of a command that acts with -json. Out is then the standard error.
	outcome io.Writer
	late    notice
}

// Changed has the names of the things that a command has changed.
type Changed map[string]string

// Report writes a sentence on the outcome of a command that acts, and the outcome itself.
func (c *Call) Report(outcome any, format string, args ...any) error {
	c.Printf(format+"\n", args...)
	return c.WriteOutcome(outcome)
}

// WriteOutcome writes the outcome of a command that acts, if -json is set. The outcome is the answer of the
// API, or a Changed if that is empty.
func (c *Call) WriteOutcome(answer any) error {
	if c.outcome == nil {
		return nil
	}
	return WriteJSON(c.outcome, answer)
}

// OutcomeOutput returns the standard output of a command that acts, also with -json.
func (c *Call) OutcomeOutput() io.Writer {
	return cmp.Or(c.outcome, c.Out)
}

// Arg returns the argument with an index, or "" if there is none.
func (c *Call) Arg(i int) string {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return ""
}

// ID returns the form of an ID for users: the short one, or with -verbose the complete one.
func (c *Call) ID(id string) string {
	if findFlag(c.Command.AllFlags(), VerboseFlag.Name) != nil && c.Bool(VerboseFlag.Name) {
		return id
	}
	return show.ShortID(id)
}

func (c *Call) newClient() *api.Client {
	return api.NewClient(api.ClientConfig{
		Address:   addressOf(c),
		Namespace: c.Namespace(),
		Region:    c.region(),
		Token:     os.Getenv("BERTH_TOKEN"),
		Late:      c.sayLate,
		TLS: transport.TLS{
			CACert:     c.String("ca-cert"),
			CAPath:     c.String("ca-path"),
			ClientCert: c.String("client-cert"),
			ClientKey:  c.String("client-key"),
			ServerName: c.String("tls-server-name"),
		},
	})
}

// Namespace returns the namespace that an option or the environment names, or "".
func (c *Call) Namespace() string {
	return cmp.Or(c.String("namespace"), os.Getenv("BERTH_NAMESPACE"))
}

// region returns the region that an option or the environment names, or "".
func (c *Call) region() string {
	return cmp.Or(c.String("region"), os.Getenv("BERTH_REGION"))
}

// Printf writes to the standard output for users.
func (c *Call) Printf(format string, args ...any) {
	fmt.Fprintf(Printable{To: c.Out}, format, args...)
}

// Show renders an answer with -json, with -t or for users.
func (c *Call) Show(answer any, human func() error) error {
	switch {
	case c.Bool("json"):
		return WriteJSON(c.Out, answer)
	case c.String("t") != "":
		return renderTemplate(c.templateOutput(), c.String("t"), answer)
	}
	return human()
}

// templateOutput returns the output of templates. A program gets the answer of the API unchanged. On a
// terminal control characters are escaped.
func (c *Call) templateOutput() io.Writer {
	if c.TerminalWidth() > 0 {
		return Printable{To: c.Out}
	}
	return c.Out
}

// WriteJSON writes an answer with indents.
func WriteJSON(w io.Writer, answer any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "    ")
	return enc.Encode(answer)
}

var templateFuncs = gotext.Functions{
	"json": func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	},
	"join":  strings.Join,
	"short": show.ShortID,
}

func renderTemplate(w io.Writer, text string, answer any) error {
	t, err := gotext.Parse("-t", text, gotext.Config{Functions: templateFuncs})
	if err != nil {
		return structs.Invalidf("the template is invalid: %w", err)
	}
	var b strings.Builder
	err = t.Execute(&b, "-t", answer)
	if err != nil {
		return structs.Invalidf("the template does not fit the answer: %w", err)
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(b.String(), "\n"))
	return err
}

// CloseRead closes a file that was only read. Its error loses no data.
func CloseRead(f io.Closer) { _ = f.Close() }

// ReadFile reads a file, or the standard input for "-".
func (c *Call) ReadFile(name string) ([]byte, error) {
	if name == "-" {
		b, err := io.ReadAll(c.In)
		if err != nil {
			return nil, structs.Invalidf("reading the standard input: %w", err)
		}
		return b, nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, structs.Invalidf("%w", err)
	}
	return b, nil
}
