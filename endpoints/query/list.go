package query

import (
	"encoding/base64"
	"errors"
	"iter"
	"slices"
	"strings"

	"berth/state"
	"berth/structs"
)

// List makes rows into a list.
type List[Row, Stub any] struct {
	// Key returns the position of a row in the list. The token of a page is the key of its first row. So rows
	// that come or go between two pages shift no others.
	Key func(*Row) []string
	// Stub writes the stub of a row over the previous content of a stub.
	Stub func(*Row, *Stub)
	// Keep, if not nil, leaves out the rows for which it is false.
	Keep func(*Row) bool
}

// Whole is the Stub of a list that shows its rows whole.
func Whole[Row any](row, stub *Row) { *stub = *row }

// rowList is a list without its types, so that the program has the code behind Page and Each once and not for
// each List. Rows and stubs are pointers.
type rowList struct {
	rows    iter.Seq[any]
	key     func(row any) []string
	stub    func(row, stub any)
	keep    func(row any) bool // may be nil
	newStub func() any
}

func (l List[Row, Stub]) of(rows iter.Seq[*Row]) rowList {
	plain := rowList{
		rows: func(yield func(any) bool) {
			for row := range rows {
				if !yield(row) {
					return
				}
			}
		},
		key:     func(row any) []string { return l.Key(row.(*Row)) },
		stub:    func(row, stub any) { l.Stub(row.(*Row), stub.(*Stub)) },
		newStub: func() any { return new(Stub) },
	}
	if l.Keep != nil {
		plain.keep = func(row any) bool { return l.Keep(row.(*Row)) }
	}
	return plain
}

// Each calls do with each row that the filter of the options accepts, and that their Sees shows. It reads no
// other option.
func (l List[Row, Stub]) Each(rows iter.Seq[*Row], q *structs.QueryOptions, do func(*Row) error) error {
	return l.of(rows).eachRow(q, func(row any) error {
		return do(row.(*Row))
	})
}

func (l rowList) eachRow(q *structs.QueryOptions, do func(row any) error) error {
	p, err := l.pagePart(&structs.QueryOptions{Filter: q.Filter, Sees: q.Sees})
	if err != nil {
		return err
	}
	return p.each(func(row, _ any) error { return do(row) })
}

// errFull ends a page that has its rows.
var errFull = errors.New("the page is full")

// Page returns the stubs for the options of a request, and sets NextToken of the response. The rows come in
// the order of Key or, with Reverse, in its opposite, and may begin at Start. Page reads no more of them than
// it needs. If the caller asked to stream, Page makes no stubs and sets Rows of the response.
func (l List[Row, Stub]) Page(
	rows iter.Seq[*Row],
	req ReadRequest,
	resp ReadResponse,
) ([]*Stub, error) {
	stubs := []*Stub{}
	err := l.of(rows).page(req.Query(), resp.Meta(), func(stub any) {
		stubs = append(stubs, new(*stub.(*Stub)))
	})
	if err != nil || resp.Meta().Rows != nil {
		return nil, err
	}
	return stubs, nil
}

// page calls add with the stub of each row of the page.
func (l rowList) page(
	q *structs.QueryOptions,
	meta *structs.QueryMeta,
	add func(stub any),
) error {
	p, err := l.pagePart(q)
	if err != nil {
		return err
	}

	if q.Stream {
		meta.Rows = func(do func(row any) error) error {
			return p.each(func(_, stub any) error {
				return do(stub)
			})
		}
		return nil
	}

	added := 0
	err = p.each(func(row, stub any) error {
		if q.PerPage > 0 && added == int(q.PerPage) {
			meta.NextToken = Token(p.key(row)...)
			return errFull
		}

		add(stub)
		added++
		return nil
	})

	if errors.Is(err, errFull) {
		err = nil
	}

	return err
}

// part is the part of a list that begins with the first row of a page.
type part struct {
	rowList
	match   MatchFunc
	begin   []string // the key of the first row, nil where the list begins
	reverse bool
}

// pagePart checks the options and returns the part of the list for a page.
func (l rowList) pagePart(q *structs.QueryOptions) (*part, error) {
	if q.PerPage < 0 {
		return nil, structs.Invalidf(
			"per_page is %d; expected 0 (all) or more", q.PerPage)
	}

	match, err := CompileFilter(q.Filter)
	if err != nil {
		return nil, err
	}

	begin, err := ParseToken(q.NextToken)
	if err != nil {
		return nil, err
	}

	l.keep = seen(q, l.keep)
	p := &part{
		rowList: l,
		match:   match,
		begin:   begin,
		reverse: q.Reverse,
	}

	if q.Sort != "" {
		err = p.sortBy(q)
	}

	return p, err
}

// each calls do with each matching row of the part, and its stub. All rows share one stub in turn.
func (p *part) each(do func(row, stub any) error) error {
	stub := p.newStub()
	skip := p.begin != nil
	for row := range p.rows {
		if p.keep != nil && !p.keep(row) {
			continue
		}

		skip = skip && p.before(row)
		if skip {
			continue
		}

		p.stub(row, stub)
		ok, err := p.match(stub)
		if ok && err == nil {
			err = do(row, stub)
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// before reports whether a row belongs to an earlier page.
func (p *part) before(row any) bool {
	order := slices.Compare(p.key(row), p.begin)
	if p.reverse {
		return order > 0
	}
	return order < 0
}

// Token writes a key so that a URL can hold it. No part of the key holds a NUL.
func Token(key ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(key, "\x00")))
}

// ParseToken returns the key of a token, nil for "".
func ParseToken(token string) (key []string, err error) {
	if token == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, structs.Invalidf(
			"the page token %q is not one that a list gave", token)
	}
	return strings.Split(string(b), "\x00"), nil
}

// Start returns where the rows of a page begin. It ignores a malformed token, which Page rejects. A list that
// is not in the order of its keys reads all rows.
func Start(req ReadRequest) state.Page {
	q := req.Query()
	if q.Sort != "" {
		return state.Page{}
	}
	key, _ := ParseToken(q.NextToken)
	return state.Page{From: key, Reverse: q.Reverse}
}
