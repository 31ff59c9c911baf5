package ui

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/api/allocs"
	"berth/api/jobs"
	"berth/api/nodes"
	"berth/api/volumes"
	"berth/structs"
	"berth/ui/pages"
	"berth/ui/views"
)

// The rows of a page of a list.
const (
	rowsPerPage = 50
	maxPerPage  = 500
)

// list is a view of rows of one kind.
type list[T any] struct {
	path       string
	caption    string
	namespaced bool
	columns    []string
	// names are the fields in which the search looks.
	names []string
	// shows are the choices of rows, the first of which is all.
	shows []pages.Choice
	read  func(context.Context, *api.Client, *api.Query) ([]T, *api.Meta, error)
	row   func(T) views.Row
}

// orders are the orders of each list of the API.
var orders = []pages.Choice{
	{Name: "by ID", Value: "id"},
	{Name: "by ID, the last first", Value: "id-reverse"},
	{Name: "the newest first", Value: "create-reverse"},
	{Name: "the oldest first", Value: "create"},
	{Name: "the last changed first", Value: "modify-reverse"},
}

// serve reads a page of the list.
func (l list[T]) serve(c *call) (*content, error) {
	f, q, err := l.parse(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.ctx()
	defer cancel()
	all, meta, err := l.read(ctx, c.client(c.namespace), q)
	if err != nil {
		return nil, err
	}

	data := pages.Listing{
		Table: views.Table{
			Caption: l.caption,
			Columns: l.columns,
			Empty:   "No row matches.",
		},
	}
	for _, item := range all {
		data.Table.Rows = append(data.Table.Rows, l.row(item))
	}
	if q.NextToken != "" {
		data.First = c.with("next_token", "")
	}
	if meta.NextToken != "" {
		data.Next = c.with("next_token", meta.NextToken)
	}
	return &content{Content: pages.Content{Before: pages.ListForm(f), Rows: pages.List(data)}}, nil
}

// with returns the path of the view with another value of a parameter, "" for none.
func (c *call) with(name, value string) string {
	v := c.r.URL.Query()
	v.Set(name, value)
	if value == "" {
		v.Del(name)
	}
	return c.r.URL.Path + "?" + v.Encode()
}

// parse reads the form of a list, and makes the options of the read from it.
func (l list[T]) parse(c *call) (pages.Form, *api.Query, error) {
	f := pages.Form{
		Path:    l.path,
		Search:  c.param("search"),
		Filter:  c.param("filter"),
		Shows:   slices.Clone(l.shows),
		Orders:  slices.Clone(orders),
		PerPage: rowsPerPage,
	}
	if l.namespaced {
		f.Namespace = c.namespace
	}

	if given := c.param("per_page"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > maxPerPage {
			return f, nil, structs.Invalidf("the parameter per_page is %q; expected a number from 1 to %d",
				structs.Cut(given, structs.MaxQuoted), maxPerPage)
		}
		f.PerPage = n
	}

	shown := choose(f.Shows, c.param("show"))
	order := choose(f.Orders, c.param("order"))
	if order == nil || shown == nil && len(f.Shows) > 0 {
		return f, nil, structs.Invalidf("the address of the view has a wrong choice: show is %q and order is %q; choose in the form", structs.Cut(c.param("show"), structs.MaxQuoted),
			structs.Cut(c.param("order"), structs.MaxQuoted))
	}

	search, err := l.search(f.Search)
	if err != nil {
		return f, nil, err
	}
	q := &api.Query{
		PerPage:    int32(f.PerPage),
		NextToken:  c.param("next_token"),
		AllowStale: true,
		Filter:     allOf(f.Filter, search),
	}
	if shown != nil {
		q.Filter = allOf(q.Filter, shown.Filter)
	}
	by, reverse := strings.CutSuffix(order.Value, "-reverse")
	q.Reverse = reverse
	switch by {
	case "create":
		q.Sort = structs.SortCreate
	case "modify":
		q.Sort = structs.SortModify
	}
	return f, q, nil
}

// choose marks the choice with a value, "" for the first one, and returns it. It is nil if there is none.
func choose(all []pages.Choice, value string) *pages.Choice {
	for i := range all {
		if value == "" || all[i].Value == value {
			all[i].Chosen = true
			return &all[i]
		}
	}
	return nil
}

// search makes the filter of a text that one of the names of a row contains.
func (l list[T]) search(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	quote := `"`
	if strings.Contains(text, quote) {
		quote = "`"
	}
	if strings.Contains(text, quote) || strings.ContainsAny(text, "\\\n") {
		return "", structs.Invalidf("the search for %q: expected a text without backslashes and with one kind of quotes", structs.Cut(text, structs.MaxQuoted))
	}
	var some []string
	for _, name := range l.names {
		some = append(some, name+" contains "+quote+text+quote)
	}
	return strings.Join(some, " or "), nil
}

// filterOf makes the filter of the rows with a value in a field. IDs of nodes, plugins and jobs have no
// quotes of both kinds.
func (l list[T]) filterOf(field, value string) string {
	quote := `"`
	if strings.Contains(value, quote) {
		quote = "`"
	}
	return field + " == " + quote + value + quote
}

// whose returns the path of the list with the rows that have a value in a field.
func (l list[T]) whose(field, value, namespace string) string {
	v := url.Values{"filter": {l.filterOf(field, value)}}
	if l.namespaced {
		v.Set("namespace", namespace)
	}
	return l.path + "?" + v.Encode()
}

// allOf joins filters that must all match.
func allOf(filters ...string) string {
	var some []string
	for _, f := range filters {
		if f != "" {
			some = append(some, "("+f+")")
		}
	}
	return strings.Join(some, " and ")
}

var volumeList = list[*structs.CSIVolumeListStub]{
	path:       Root + "volumes",
	caption:    "Volumes",
	namespaced: true,
	columns:    views.VolumeColumns.Titles,
	names:      []string{"ID", "Name"},
	shows: []pages.Choice{
		{Name: "all", Value: "all"},
		{Name: "with claims that wait", Value: "waiting", Filter: "Waiting != 0"},
		{Name: "not schedulable", Value: "unschedulable", Filter: "Schedulable == false"},
		{Name: "not ready", Value: "unready", Filter: `State != "ready"`},
		{Name: "different from the storage", Value: "drift", Filter: `Drift != ""`},
	},
	read: func(ctx context.Context, c *api.Client, q *api.Query) (
		[]*structs.CSIVolumeListStub, *api.Meta, error,
	) {
		return volumes.List(ctx, c, volumes.Filter{}, q)
	},
	row: views.VolumeRow,
}

// allocations is the list of all allocations.
var allocList = list[*structs.AllocListStub]{
	path:       Root + "allocations",
	caption:    "Allocations",
	namespaced: true,
	columns:    views.AllocColumns.Titles,
	names:      []string{"ID", "Name", "NodeName"},
	shows: []pages.Choice{
		{Name: "all", Value: "all"},
		{Name: "running", Value: "running", Filter: `ClientStatus == "running"`},
		{Name: "pending", Value: "pending", Filter: `ClientStatus == "pending"`},
		{
			Name: "failed and not replaced", Value: "failed",
			Filter: wrongAllocs,
		},
		{Name: "ended", Value: "ended", Filter: `ClientStatus == "complete" or ClientStatus == "failed"`},
	},
	read: func(ctx context.Context, c *api.Client, q *api.Query) ([]*structs.AllocListStub, *api.Meta, error) {
		return allocs.List(ctx, c, q)
	},
	row: views.AllocRow,
}

var jobList = list[*structs.JobListStub]{
	path:       Root + "jobs",
	caption:    "Jobs",
	namespaced: true,
	columns:    views.JobColumns,
	names:      []string{"ID", "Name"},
	shows: []pages.Choice{
		{Name: "all", Value: "all"},
		{Name: "running", Value: "running", Filter: `Status == "running"`},
		{Name: "pending", Value: "pending", Filter: `Status == "pending"`},
		{Name: "dead", Value: "dead", Filter: `Status == "dead"`},
	},
	read: func(ctx context.Context, c *api.Client, q *api.Query) ([]*structs.JobListStub, *api.Meta, error) {
		return jobs.List(ctx, c, q)
	},
	row: views.JobRow,
}

var nodeList = list[*structs.NodeListStub]{
	path:    Root + "nodes",
	caption: "Nodes",
	columns: views.NodeColumns.Titles,
	names:   []string{"ID", "Name"},
	shows: []pages.Choice{
		{Name: "all", Value: "all"},
		{Name: "not ready", Value: "unready", Filter: `Status != "ready"`},
		{Name: "draining", Value: "draining", Filter: `Drain == true`},
		{Name: "ineligible", Value: "ineligible", Filter: `SchedulingEligibility != "eligible"`},
	},
	read: func(ctx context.Context, c *api.Client, q *api.Query) ([]*structs.NodeListStub, *api.Meta, error) {
		return nodes.List(ctx, c, q)
	},
	row: views.NodeRow,
}

var pluginList = list[*structs.CSIPluginListStub]{
	path:    Root + "plugins",
	caption: "Plugins",
	columns: views.PluginColumns,
	names:   []string{"ID", "Provider"},
	read: func(ctx context.Context, c *api.Client, q *api.Query) (
		[]*structs.CSIPluginListStub, *api.Meta, error,
	) {
		return volumes.ListPlugins(ctx, c, q)
	},
	row: views.PluginRow,
}
