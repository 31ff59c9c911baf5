package cli

import (
	"context"
	"slices"

	"berth/api"
	"berth/structs"
)

// sheet describes a table of items.
type sheet[T any] struct {
	titles []string
	row    func(T) []string
	order  func(a, b T) int // nil: the order of the answer
}

func (s sheet[T]) rows(items []T) [][]string {
	if s.order != nil {
		items = slices.SortedStableFunc(slices.Values(items), s.order)
	}
	var rows [][]string
	for _, item := range items {
		rows = append(rows, s.row(item))
	}
	return rows
}

// list shows an answer that is a list. noun names its items in the plural.
func (s sheet[T]) list(c *Call, noun string, items []T) error {
	return c.show(items, func() error {
		if len(items) == 0 {
			c.Printf("No %s\n", noun)
			return nil
		}
		c.table(s.titles, s.rows(items))
		return nil
	})
}

// section shows items under a title.
func (s sheet[T]) section(c *Call, title string, items []T) {
	c.section(title, s.titles, s.rows(items))
}

// lookup shows the thing that the argument of a command names by its ID or by a prefix of it.
type lookup[T any] struct {
	id    func(ctx context.Context, prefix string) (string, error)
	get   func(ctx context.Context, id string, q *api.Query) (*T, *structs.QueryMeta, error)
	print func(ctx context.Context, c *Call, found *T) error
}

func (l lookup[T]) show(ctx context.Context, c *Call) error {
	id, err := l.id(ctx, c.Arg(0))
	if err != nil {
		return err
	}
	found, _, err := l.get(ctx, id, nil)
	if err != nil {
		return err
	}
	return c.show(found, func() error { return l.print(ctx, c, found) })
}
