package mvcc

// Sums are the sums over the rows of each list of a list index. A list has its sum beside its slots, so it
// costs no key and no row of its own.
type Sums[R Record, S Summand[S]] struct {
	index *index
	name  func(R) string
	of    func(R) S
}

// Summand is a type whose values are added up. The zero value is the sum of no rows.
type Summand[S any] interface {
	comparable
	Plus(S) S
	Minus(S) S
}

// SumLists declares the sums of a list index. name returns the first part of a row's key, and of returns what
// the row adds to the sum of its list.
func SumLists[R Record, S Summand[S]](x *Index[R], name func(R) string, of func(R) S) *Sums[R, S] {
	s := &Sums[R, S]{x.index, name, of}
	x.index.sums = s
	return s
}

// listSums is the interface of all Sums.
type listSums interface {
	// leave reports whether changes of a list leave its sum as it is. before has the rows before the changes.
	leave(before rowVector, changes []entry) bool
	// after returns a list after changes with its sum. was is the row that it had, nil if there was none.
	after(slots slotList, was any, before rowVector, changes []entry) any
	// total returns a list with its sum.
	total(slots slotList, of rowVector) any
}

// summedList is the row of a list with a sum. It never changes.
type summedList[S any] struct {
	slotList
	name string
	sum  S
}

func (s *Sums[R, S]) leave(before rowVector, changes []entry) bool {
	var none S
	return s.difference(before, changes) == none
}

func (s *Sums[R, S]) after(slots slotList, was any, before rowVector, changes []entry) any {
	next := &summedList[S]{slotList: slots, sum: s.difference(before, changes)}
	if l, _ := was.(*summedList[S]); l != nil {
		next.name = l.name
		next.sum = l.sum.Plus(next.sum)
		return next
	}
	for _, e := range changes {
		if e.row != nil {
			next.name = s.name(e.row.(R))
		}
	}
	return next
}

func (s *Sums[R, S]) total(slots slotList, of rowVector) any {
	all := &summedList[S]{slotList: slots}
	for _, e := range slots {
		r := of.At(e.slot.number).(R)
		all.name = s.name(r)
		all.sum = all.sum.Plus(s.of(r))
	}
	return all
}

// difference returns by how much changes of a list change its sum.
func (s *Sums[R, S]) difference(before rowVector, changes []entry) (d S) {
	for _, e := range changes {
		if e.tree != nil {
			d = d.Minus(s.of(before.At(e.tree.number).(R)))
		}
		if e.row != nil {
			d = d.Plus(s.of(e.row.(R)))
		}
	}
	return d
}

// Of returns the sum over the rows whose key begins with a part.
func (s *Sums[R, S]) Of(from Reader, part string) (sum S) {
	tx := from.reader()
	tx.scratch = appendPart(tx.scratch[:0], part)
	at := s.index.at(tx.scratch)
	tx.recordRead(at)
	_, row := tx.list(at)
	if l, _ := row.(*summedList[S]); l != nil {
		sum = l.sum
	}
	if tx.overlay != nil {
		sum = sum.Plus(s.difference(tx.rows, tx.overlay.from(at, at.key)))
	}
	return sum
}

// Ascending returns a function that is Of for parts that ascend from one on, as a pointer to what never
// changes. A reader of many sums looks up none. A query does not watch such a read.
func (s *Sums[R, S]) Ascending(from Reader, first string) func(part string) *S {
	tx := from.reader()
	path := s.index.path
	tx.tables.add(path.table)
	if tx.overlay != nil && tx.overlay.hasPath(path) {
		return func(part string) *S { return new(s.Of(tx, part)) }
	}

	slots := must(tx.txn.LowerBound(path.tree, memdbIndex, tx.keyArgs(KeyOf(first))...))
	next := func() *summedList[S] {
		if s, _ := slots.Next().(*slot); s != nil {
			return tx.rows.At(s.number).(*summedList[S])
		}
		return nil
	}

	none := new(S)
	list := next()
	return func(part string) *S {
		for list != nil && list.name < part {
			list = next()
		}

		if list == nil || list.name != part {
			return none
		}
		return &list.sum
	}
}

// sumLists sums up the lists that the load of a file has made.
func (l *loading) sumLists() {
	tx := l.view.read()
	for _, p := range l.view.schema.paths {
		if p.sums == nil {
			continue
		}
		slots := must(tx.txn.Get(p.tree, memdbIndex, tx.keyArgs(nil)...))
		for s, _ := slots.Next().(*slot); s != nil; s, _ = slots.Next().(*slot) {
			list := tx.rows.At(s.number).(slotList)
			l.view.rows.Set(l.writing, s.number, p.sums.total(list, tx.rows))
		}
	}
}
