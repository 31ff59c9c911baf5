package operator

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"berth/api"
	"berth/cli/command"
	"berth/structs"
)

// operatorAPI is the verb that sends any request.
var operatorAPI = command.Command{
	Name:     "api",
	Args:     "<path>",
	Synopsis: "Send a request to the HTTP API",
	Help: `
The request has the address, the token, the certificate and the namespace of
the other commands, and the answer is printed as it comes. The exit code is 1
for an answer that is not a success.

With a method other than GET, the body is that of -body, or else of the
standard input if it is a pipe or a file. "-body -" reads the standard input
in any case. With -body and without -X, the method is POST.`,
	Flags: []command.Flag{
		{Name: "X", Kind: command.String, Value: "method", Usage: "The method of the request; default: GET"},
		{Name: "H", Kind: command.Strings, Value: "name: value", Usage: "A header; may be repeated"},
		{
			Name:  "body",
			Kind:  command.String,
			Value: "file",
			Usage: "The file with the body; - is the standard input",
		},
		{Name: "filter", Kind: command.String, Value: "expression", Usage: "The filter of a list"},
	},
	Run: callAPI,
	Examples: "berth operator api /v1/nodes\n" +
		"berth operator api -filter Status==down /v1/nodes\n" +
		"berth operator api -X PUT -body search.json /v1/search",
}

var apiMethods = []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete}

func callAPI(ctx context.Context, c *command.Call) error {
	path, r, err := rawRequest(c)
	if err != nil {
		return err
	}
	method, err := setBody(c, &r)
	if err != nil {
		return err
	}

	resp, err := api.Raw(ctx, c.API, &api.Route{Methods: method, Path: path}, r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read

	last := &lastByte{Writer: c.Out}
	_, err = io.Copy(last, resp.Body)
	if err != nil {
		return structs.Unavailablef("reading the answer: %w", err)
	}
	if last.b != '\n' && last.b != 0 {
		c.Printf("\n")
	}
	return nil
}

// rawRequest reads the path, the query and the header of a call.
func rawRequest(c *command.Call) (path string, r api.Request, err error) {
	u, err := url.Parse(c.Arg(0))
	if err != nil || u.Host != "" || !strings.HasPrefix(u.Path, "/v1/") {
		return "", r, command.BadUsage("the path begins with /v1/, for example /v1/jobs; -address names the agent")
	}
	r.Query = u.Query()
	if c.Given("filter") {
		r.Query.Set("filter", c.String("filter"))
	}

	r.Header = http.Header{}
	for _, line := range c.Strings("H") {
		name, value, found := strings.Cut(line, ":")
		if !found {
			return "", r, command.BadUsage("a header is NAME: VALUE, for example -H 'Accept: text/plain'")
		}
		r.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return u.EscapedPath(), r, nil
}

// setBody sets the body of a request, and returns its method.
func setBody(c *command.Call, r *api.Request) (method string, err error) {
	byDefault := http.MethodGet
	if c.Given("body") {
		byDefault = http.MethodPost
	}
	method = strings.ToUpper(cmp.Or(c.String("X"), byDefault))
	if !slices.Contains(apiMethods, method) {
		return "", command.BadUsage("-X is one of %s", strings.Join(apiMethods, ", "))
	}

	file := c.String("body")
	if file == "" && method != http.MethodGet && isPiped(c.In) {
		file = "-"
	}
	if file == "" {
		return method, nil
	}
	body, err := c.ReadFile(file)
	r.Body = bytes.NewReader(body)
	return method, err
}

// isPiped reports whether a reader is a pipe or a file: neither a terminal nor /dev/null.
func isPiped(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return in != nil
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}

// lastByte remembers the last byte that was written.
type lastByte struct {
	io.Writer
	b byte
}

func (l *lastByte) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.b = p[len(p)-1]
	}
	return l.Writer.Write(p)
}
