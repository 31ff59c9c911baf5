package mvcc

import "bytes"

// Sums are the sums over the rows of each list of a list index. A list has its sum beside its slots, so it
// costs no key and no row of its own.
type Sums[T any, S Summand[S]] struct {
	index *Index[T]
	of    func(*T) S
}

// Summand is a type whose values are added up. The zero value is the sum of no rows.
type Summand[S any] interface {
	comparable
	Plus(S) S
	Minus(S) S
}

// SumLists declares the sums of a list index. of returns what a row adds to the sum of its list.
func SumLists[T any, S Summand[S]](x *Index[T], of func(*T) S) *Sums[T, S] {
	s := &Sums[T, S]{x, of}
	x.sums = s
	return s
}

// listSums is the interface of all Sums. The sum in a list is a *S, which never changes.
type listSums interface {
	// leave reports whether changes of a list leave its sum as it is. before has the rows before the changes.
	leave(before rows, changes []entry) bool
	// after returns the sum of a list after changes.
	after(sum any, before rows, changes []entry) any
	// total returns the sum of a list of slots.
	total(of rows, list slotList) any
}

func (s *Sums[T, S]) leave(before rows, changes []entry) bool {
	var none S
	return s.difference(before, changes) == none
}

func (s *Sums[T, S]) after(sum any, before rows, changes []entry) any {
	was := valueOf[S](sum)
	return new(was.Plus(s.difference(before, changes)))
}

func (s *Sums[T, S]) total(of rows, list slotList) any {
	sum := new(S)
	for _, e := range list {
		*sum = (*sum).Plus(s.amount(of.at(e.slot.number)))
	}
	return sum
}

// difference returns by how much changes of a list change its sum.
func (s *Sums[T, S]) difference(before rows, changes []entry) (d S) {
	for _, e := range changes {
		if e.tree != nil {
			d = d.Minus(s.amount(before.at(e.tree.number)))
		}
		d = d.Plus(s.amount(e.row))
	}
	return d
}

// amount returns what a row adds, nothing for no row.
func (s *Sums[T, S]) amount(row any) (amount S) {
	if r, _ := row.(*T); r != nil {
		amount = s.of(r)
	}
	return amount
}

// valueOf returns a sum, the zero value for nil.
func valueOf[S any](sum any) (value S) {
	if p, _ := sum.(*S); p != nil {
		value = *p
	}
	return value
}

// Of returns the sum over the rows whose key begins with a part.
func (s *Sums[T, S]) Of(from Reader, part string) S {
	tx := from.reader()
	tx.scratch = appendPart(tx.scratch[:0], part)
	at := s.index.at(tx.scratch)
	tx.recordRead(at)
	_, l := tx.list(at)
	return valueOf[S](l.sum).Plus(s.changed(tx, at))
}

// changed returns by how much the batch of a writer has changed the sum of a list.
func (s *Sums[T, S]) changed(tx *ReadTx, name pathKey) (d S) {
	if tx.overlay == nil || !tx.overlay.hasPath(name.path) {
		return d
	}
	return s.difference(tx.rows, tx.overlay.from(name, name.key))
}

// Ascending returns a function that is Of for parts that ascend from one on, as a pointer to what never
// changes. A reader of many sums looks up none. A query does not watch such a read.
func (s *Sums[T, S]) Ascending(from Reader, first string) func(part string) *S {
	tx := from.reader()
	path := s.index.path
	tx.tables |= 1 << path.table
	slots := must(tx.txn.LowerBound(path.name, memdbIndex, tx.keyArgs(KeyOf(first))...))
	next := func() *listRow {
		if s, _ := slots.Next().(*slot); s != nil {
			return tx.rows.at(s.number).(*listRow)
		}
		return nil
	}
	none := new(S)
	list := next()
	return func(part string) *S {
		tx.scratch = appendPart(tx.scratch[:0], part)
		name := s.index.at(tx.scratch)
		for list != nil && bytes.Compare(list.entries[0].key, name.key) < 0 {
			list = next()
		}
		sum := none
		if list != nil && bytes.HasPrefix(list.entries[0].key, name.key) {
			sum = list.sum.(*S)
		}
		if changed := s.changed(tx, name); changed != *none {
			sum = new((*sum).Plus(changed))
		}
		return sum
	}
}

// sumLists sums up the lists of a view that nobody reads yet.
func (v *view) sumLists() {
	tx := v.read()
	for _, p := range v.schema.paths {
		if p.sums == nil {
			continue
		}
		slots := must(tx.txn.Get(p.name, memdbIndex, tx.keyArgs(nil)...))
		for s, _ := slots.Next().(*slot); s != nil; s, _ = slots.Next().(*slot) {
			list := v.rows.at(s.number).(*listRow)
			list.sum = p.sums.total(v.rows, list.entries)
		}
	}
}
