package cli

import (
	"context"
	"math"
	"slices"
	"strings"

	"berth/api"
	"berth/structs"
)

// sheet describes a table of items.
type sheet[T any] struct {
	titles string // as those of Call.table
	row    func(c *Call, item T) []string
	order  func(a, b T) int // nil: the order of the answer
}

func (s sheet[T]) rows(c *Call, items []T) grid {
	if s.order != nil {
		items = slices.SortedStableFunc(slices.Values(items), s.order)
	}
	var rows grid
	for _, item := range items {
		rows = append(rows, s.row(c, item))
	}
	return rows
}

// list shows an answer that is a list. noun names its items.
func (s sheet[T]) list(c *Call, noun string, items []T) error {
	return c.show(items, func() error {
		s.print(c, noun, items)
		return nil
	})
}

func (s sheet[T]) print(c *Call, noun string, items []T) {
	if len(items) == 0 {
		c.Printf("No %s\n", pluralOf(noun))
		return
	}
	c.table(s.titles, s.rows(c, items))
}

// section shows items under a title.
func (s sheet[T]) section(c *Call, title string, items []T) {
	c.section(title, s.titles, s.rows(c, items))
}

// pageFlags are the options of lists that are read page by page.
var pageFlags = []Flag{
	{Name: "filter", Kind: String, Value: "expression", Usage: "List only the items for which this is true"},
	{Name: "per-page", Kind: Number, Value: "number", Usage: "Items of one page. Default: all"},
	{Name: "page-token", Kind: String, Value: "token", Usage: "Begin with the page that the last one names"},
}

// page returns the options of a query for a page.
func (c *Call) page() *api.Query {
	return &api.Query{
		Filter:    c.String("filter"),
		PerPage:   int32(min(c.Number("per-page"), math.MaxInt32)),
		NextToken: c.String("page-token"),
	}
}

// printNextPage tells how to read the page after the one that was shown, if there is one.
func (c *Call) printNextPage(meta *api.Meta) {
	if meta.NextToken != "" {
		c.Printf("\nThere are more: -page-token %s shows the next page\n", meta.NextToken)
	}
}

// lister is a method of a client that reads a list.
type lister[T any] func(c *api.Client, ctx context.Context, q *api.Query) (
	[]T, *api.Meta, error,
)

// status lists the things of a kind, or shows the one that the argument of a command names.
type status[S, T any] struct {
	kind  string // a key of kinds
	sheet sheet[S]
	list  lister[S]
	get   func(c *api.Client, ctx context.Context, id string, q *api.Query) (
		*T, *api.Meta, error,
	)
	print func(ctx context.Context, c *Call, found *T) error
}

func (s *status[S, T]) run(ctx context.Context, c *Call) error {
	if c.Arg(0) == "" {
		items, _, err := s.list(c.API, ctx, nil)
		if err == nil && len(items) == 0 {
			err = c.checkNamespaceOf(ctx, kinds[s.kind])
		}
		if err != nil {
			return err
		}
		return s.sheet.list(c, kinds[s.kind].noun, items)
	}
	id, err := c.resolve(ctx, s.kind, c.Arg(0))
	if err != nil {
		return err
	}
	found, _, err := s.get(c.API, ctx, id, nil)
	if err != nil {
		return err
	}
	return c.show(found, func() error {
		return s.print(ctx, c, found)
	})
}

// checkFound returns the error of a list, or that of checkNamespace for one without entries.
func (c *Call) checkFound(ctx context.Context, entries int, err error) error {
	if err != nil || entries > 0 {
		return err
	}
	return c.checkNamespace(ctx)
}

// checkNamespaceOf is checkNamespace for things of a kind.
func (c *Call) checkNamespaceOf(ctx context.Context, k kind) error {
	if k.global {
		return nil
	}
	return c.checkNamespace(ctx)
}

// checkNamespace returns an error if the namespace that an option or the environment names does not exist. An
// answer about such a namespace is an empty list.
func (c *Call) checkNamespace(ctx context.Context) error {
	name := c.namespace()
	if name == "" || name == structs.AllNamespaces {
		return nil
	}
	found, _, err := c.API.Namespaces(ctx, &api.Query{Prefix: name})
	if err != nil || slices.ContainsFunc(found, func(n *structs.Namespace) bool { return n.Name == name }) {
		return err
	}
	unknown := structs.NotFoundf("there is no namespace %q; \"berth namespace list\" lists all", name)
	return c.didYouMean(ctx, "namespace", name, unknown)
}

// pluralOf returns the plural of a noun.
func pluralOf(noun string) string {
	if stem, found := strings.CutSuffix(noun, "y"); found {
		return stem + "ies"
	}
	return noun + "s"
}
