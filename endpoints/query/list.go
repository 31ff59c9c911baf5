package query

import (
	"cmp"
	"encoding/base64"
	"errors"
	"iter"
	"slices"
	"strings"

	"berth/state"
	"berth/structs"
)

// List turns rows into one page of a list. Rows come in the order of Key, or backwards when that is asked for.
// A page's token is the key of
// the first row of the next page, so that rows which come or go between two pages shift nothing.
type List[Row, Stub any] struct {
	Key  func(*Row) []string
	Stub func(*Row) *Stub
	// Passing, if not nil, is Stub for rows that are streamed or filtered: each stub is done with, or copied,
	// before the next is made.
	Passing func(*Row) *Stub
	// Keep, if not nil, leaves out the rows for which it is false.
	Keep func(*Row) bool
}

// page makes the stubs that the options ask for, and sets NextToken. Only as many rows are looked at, and
// only as many stubs are made, as the page takes. For who wants a stream nothing is made but meta.Rows.
func (l List[Row, Stub]) Page(rows iter.Seq[*Row], q *structs.QueryOptions, meta *structs.QueryMeta) ([]*Stub, error) {
	match, err := filter(q.Filter)
	if err != nil {
		return nil, err
	}
	if q.PerPage < 0 {
		return nil, structs.Errorf(structs.KindInvalid, "per_page is %d; expected 0 (all) or more", q.PerPage)
	}
	begin, err := ParseToken(q.NextToken)
	if err != nil {
		return nil, err
	}
	if q.Sort != "" {
		if rows, err = l.sortBy(rows, q, begin); err != nil {
			return nil, err
		}
	}
	if q.Stream {
		if l.Passing != nil {
			l.Stub = l.Passing
		}
		meta.Rows = l.stream(rows, q, match, begin)
		return nil, nil
	}
	passing := q.Filter != "" && l.Passing != nil // no stubs for rows that are not let by
	if passing {
		l.Stub = l.Passing
	}
	stubs := []*Stub{}
	err = l.each(rows, q, match, begin, func(row *Row, stub *Stub) bool {
		if q.PerPage > 0 && len(stubs) == int(q.PerPage) {
			meta.NextToken = Token(l.Key(row))
			return false
		}
		if passing {
			kept := *stub
			stub = &kept
		}
		stubs = append(stubs, stub)
		return true
	})
	return stubs, err
}

// stream makes the stubs when they are asked for.
func (l List[Row, Stub]) stream(rows iter.Seq[*Row], q *structs.QueryOptions, match func(any) (bool, error), begin []string) func(func(any) error) error {
	return func(do func(any) error) (err error) {
		failed := l.each(rows, q, match, begin, func(_ *Row, stub *Stub) bool {
			err = do(stub)
			return err == nil
		})
		return errors.Join(failed, err)
	}
}

// each makes the stubs of the rows from begin on that match, until do has enough.
func (l List[Row, Stub]) each(rows iter.Seq[*Row], q *structs.QueryOptions, match func(any) (bool, error), begin []string,
	do func(row *Row, stub *Stub) bool,
) error {
	for row := range rows {
		if l.Keep != nil && !l.Keep(row) {
			continue
		}
		if begin != nil && before(l.Key(row), begin, q.Reverse) {
			continue
		}
		stub := l.Stub(row)
		if ok, err := match(stub); err != nil {
			return err
		} else if ok && !do(row, stub) {
			return nil
		}
	}
	return nil
}

// before reports whether a row with the key belongs to an earlier page than the one that Start with the
// key begin.
func before(key, begin []string, reverse bool) bool {
	order := slices.CompareFunc(key, begin, cmp.Compare[string])
	if reverse {
		return order > 0
	}
	return order < 0
}

// Token writes a key so that it can stand in a URL; its parts hold no NUL.
func Token(key []string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(key, "\x00")))
}

func ParseToken(token string) (key []string, err error) {
	if token == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, structs.Errorf(structs.KindInvalid, "the page token %q is not one that a list gave", token)
	}
	return strings.Split(string(b), "\x00"), nil
}

// Start is where the rows of a page begin. A token that is none is refused by page. A list that is sorted looks at
// all rows.
func Start(q *structs.QueryOptions) state.Page {
	if q.Sort != "" {
		return state.Page{}
	}
	key, err := ParseToken(q.NextToken)
	if err != nil {
		key = nil
	}
	return state.Page{From: key, Reverse: q.Reverse}
}

// Sorted puts rows that come in another order into the order of their keys, so that they can be paged. It is for few.
func Sorted[Row any](rows iter.Seq[*Row], key func(*Row) []string, q *structs.QueryOptions) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		all := slices.SortedFunc(rows, func(a, b *Row) int { return slices.Compare(key(a), key(b)) })
		if q.Reverse {
			slices.Reverse(all)
		}
		slices.Values(all)(yield)
	}
}

// Identical is the stub of a row that lists show whole.
func Identical[Row any](row *Row) *Row { return row }
