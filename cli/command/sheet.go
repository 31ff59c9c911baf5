package command

import (
	"context"
	"math"
	"slices"
	"strings"

	"berth/api"
	"berth/api/operator"
	"berth/api/show"
	"berth/structs"
	"berth/structs/cluster"
)

// Sheet describes a table of items.
type Sheet[T any] struct {
	Titles string // as for Call.Table
	Row    func(c *Call, item T) []string
	Order  func(a, b T) int // nil: the order of the answer
}

// SheetOf returns the sheet with these columns of a noun (see show.Noun.Pick).
func SheetOf[T any](n show.Noun[T], titles string, order func(a, b T) int) Sheet[T] {
	columns := n.Pick(titles)
	return Sheet[T]{
		Titles: strings.Join(columns.Titles, "|"),
		Row:    func(c *Call, item T) []string { return columns.Texts(item, c.ID) },
		Order:  order,
	}
}

func (s Sheet[T]) rows(c *Call, items []T) Grid {
	if s.Order != nil {
		items = slices.SortedStableFunc(slices.Values(items), s.Order)
	}
	var rows Grid
	for _, item := range items {
		rows = append(rows, s.Row(c, item))
	}
	return rows
}

// List shows an answer that is a list. noun names its items.
func (s Sheet[T]) List(c *Call, noun string, items []T) error {
	return c.Show(items, func() error {
		s.Print(c, noun, items)
		return nil
	})
}

// Print shows items, or that there are none.
func (s Sheet[T]) Print(c *Call, noun string, items []T) {
	if len(items) == 0 {
		c.Printf("No %s\n", pluralOf(noun))
		return
	}
	c.Table(s.Titles, s.rows(c, items))
}

// Section shows items under a title.
func (s Sheet[T]) Section(c *Call, title string, items []T) {
	c.Section(title, s.Titles, s.rows(c, items))
}

// PageFlags are the options of lists that are read page by page.
var PageFlags = []Flag{
	{Name: "filter", Kind: String, Value: "expression", Usage: "List only the items that match"},
	{Name: "per-page", Kind: Number, Value: "number", Usage: "Items of one page. Default: all"},
	{
		Name:  "page-token",
		Kind:  String,
		Value: "token",
		Usage: "Begin with this page; the page before it names the token",
	},
}

// Page returns the options of a query for a page.
func (c *Call) Page() *api.Query {
	return &api.Query{
		Filter:    c.String("filter"),
		PerPage:   int32(min(c.Number("per-page"), math.MaxInt32)),
		NextToken: c.String("page-token"),
	}
}

// PrintNextPage tells how to read the page after the one that was shown, if there is one.
func (c *Call) PrintNextPage(meta *api.Meta) {
	if meta.NextToken != "" {
		c.Printf("\nThere are more: -page-token %s shows the next page\n", meta.NextToken)
	}
}

// Lister is a method of a client that reads a list.
type Lister[T any] func(ctx context.Context, c *api.Client, q *api.Query) (
	[]T, *api.Meta, error,
)

// Status lists the things of a kind, or shows the one that the argument of a command names.
type Status[S, T any] struct {
	Kind  string // a key of kinds
	Sheet Sheet[S]
	List  Lister[S]
	Get   func(ctx context.Context, c *api.Client, id string, q *api.Query) (
		*T, *api.Meta, error,
	)
	Print func(ctx context.Context, c *Call, found *T) error
}

// Run runs a command with an optional argument.
func (s *Status[S, T]) Run(ctx context.Context, c *Call) error {
	if c.Arg(0) == "" {
		items, _, err := s.List(ctx, c.API, nil)
		if err == nil && len(items) == 0 {
			err = c.checkNamespaceOf(ctx, kinds[s.Kind])
		}
		if err != nil {
			return err
		}

		return s.Sheet.List(c, kinds[s.Kind].noun, items)
	}

	id, err := c.Resolve(ctx, s.Kind, c.Arg(0))
	if err != nil {
		return err
	}

	found, _, err := s.Get(ctx, c.API, id, nil)
	if err != nil {
		return err
	}

	return c.Show(found, func() error {
		return s.Print(ctx, c, found)
	})
}

// CheckFound returns the error of a list, or for an empty list the error of checkNamespace.
func (c *Call) CheckFound(ctx context.Context, entries int, err error) error {
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
	name := c.Namespace()
	if name == "" || name == structs.AllNamespaces {
		return nil
	}
	found, _, err := operator.ListNamespaces(ctx, c.API, &api.Query{Prefix: name})
	if err != nil || slices.ContainsFunc(found, func(n *cluster.Namespace) bool { return n.Name == name }) {
		return err
	}
	unknown := structs.NotFoundf("there is no namespace %q; \"berth namespace list\" lists all", name)
	return c.DidYouMean(ctx, "namespace", name, unknown)
}

// pluralOf returns the plural of a noun.
func pluralOf(noun string) string {
	if stem, found := strings.CutSuffix(noun, "y"); found {
		return stem + "ies"
	}
	return noun + "s"
}
