package operator

import (
	"berth/api/operator"
	"context"
	"net/url"
	"slices"
	"strings"

	"berth/cli/command"
	"berth/structs"
)

// pageRoot is the path of the page. Package ui serves it.
const pageRoot = "/ui/"

const pageHelp = `
Prints the address of the page of the agent, or of its view of one job,
allocation, node, volume or plugin. The command starts no browser. An ID may
be shortened. With an ID alone the command finds out its type. If things of
several types have the ID, the command names a command for each of them.`

// PageCommand prints an address.
var PageCommand = command.Command{
	Name:     "ui",
	Args:     "[type] [id]",
	Group:    command.GroupSelf,
	Synopsis: "Print the address of the page, or of its view of one thing",
	Help:     pageHelp,
	Flags: []command.Flag{
		{
			Name:  "show-url",
			Kind:  command.Bool,
			Usage: "Print the address, as the command does without this option too",
		},
	},
	Renders: true,
	Run:     showPage,
	Examples: "berth ui\n" +
		"berth ui web\n" +
		"berth ui alloc 53b92b20",
}

// viewKind is a kind of things with a view.
type viewKind struct {
	name    string // as in usage lines and for Call.Resolve
	view    string // the last part of the path of the view
	context string // of a search
	global  bool   // things belong to no namespace
}

var viewKinds = []viewKind{
	{name: "job", view: "job", context: structs.SearchJobs},
	{name: "alloc", view: "allocation", context: structs.SearchAllocs},
	{name: "node", view: "node", context: structs.SearchNodes, global: true},
	{name: "volume", view: "volume", context: structs.SearchVolumes},
	{name: "plugin", view: "plugin", context: structs.SearchPlugins, global: true},
}

// PageViews returns the names of the views, each the last part of the path of one of package ui.
func PageViews() (names []string) {
	for _, k := range viewKinds {
		names = append(names, k.view)
	}
	return names
}

// address is the answer with -json: the address of the page or of a view.
type address struct{ URL string }

func showPage(ctx context.Context, c *command.Call) error {
	page, err := pageOf(c.API.Address())
	if err != nil {
		return err
	}
	if len(c.Args) > 0 {
		err := addView(ctx, c, page)
		if err != nil {
			return err
		}
	}
	return c.Show(address{URL: page.String()}, func() error {
		c.Printf("%s\n", page)
		return nil
	})
}

// pageOf returns the address of the page of the agent at an address of the HTTP API.
func pageOf(agent string) (*url.URL, error) {
	u, err := url.Parse(agent)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, structs.Invalidf("a browser cannot open the address of the agent, %q; name the one that "+
			"begins with http:// or https:// by -address or BERTH_ADDR", structs.Cut(agent, structs.MaxQuoted))
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: pageRoot}, nil
}

// addView makes the address of the page lead to the view which the arguments name.
func addView(ctx context.Context, c *command.Call, page *url.URL) error {
	k, err := kindOfView(ctx, c)
	if err != nil {
		return err
	}
	values := url.Values{}
	if !k.global {
		namespace := c.API.Namespace()
		if namespace == structs.AllNamespaces {
			return command.BadUsage("a view has one namespace; name it by -namespace")
		}
		values.Set("namespace", namespace)
	}

	id, err := c.Resolve(ctx, k.name, c.Args[len(c.Args)-1])
	if err != nil {
		return err
	}
	values.Set("id", id)
	page.Path += k.view
	page.RawQuery = values.Encode()
	return nil
}

// kindOfView returns the kind that the first of two arguments names, or the kind of the thing whose ID is the
// only argument.
func kindOfView(ctx context.Context, c *command.Call) (viewKind, error) {
	if len(c.Args) == 1 {
		return kindWithID(ctx, c, c.Arg(0))
	}
	var names []string
	for _, k := range viewKinds {
		if c.Arg(0) == k.name || c.Arg(0) == k.view {
			return k, nil
		}
		names = append(names, k.name)
	}
	return viewKind{}, command.BadUsage("the type %q is not one of %s",
		structs.Cut(c.Arg(0), structs.MaxQuoted), strings.Join(names, ", "))
}

// kindWithID returns the only kind of things with an ID. A complete ID precedes IDs that begin with it.
func kindWithID(ctx context.Context, c *command.Call, id string) (viewKind, error) {
	found, err := operator.SearchPrefix(ctx, c.API, id, "", nil)
	if err != nil {
		return viewKind{}, err
	}
	var complete, begun []viewKind
	for _, k := range viewKinds {
		matches := found.Matches[k.context]
		if slices.Contains(matches, id) {
			complete = append(complete, k)
		}
		if len(matches) > 0 {
			begun = append(begun, k)
		}
	}
	named := complete
	if len(named) == 0 {
		named = begun
	}

	quoted := structs.Cut(id, structs.MaxQuoted)
	switch len(named) {
	case 0:
		return viewKind{}, structs.NotFoundf("no job, allocation, node, volume or plugin has an ID that begins with %q",
			quoted)
	case 1:
		return named[0], nil
	}
	var lines []string
	for _, k := range named {
		lines = append(lines, structs.CommandLine(c.Namespace(), "ui "+k.name, id))
	}
	return viewKind{}, structs.Conflictf("things of %d types have the ID %q; for the view of one of them:\n  %s",
		len(named), quoted, strings.Join(lines, "\n  "))
}
