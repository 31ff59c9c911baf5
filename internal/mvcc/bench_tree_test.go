package mvcc

import (
	"fmt"
	"testing"

	"berth/internal/benchmeter"
)

// BenchmarkTreeAlone measures a transaction that puts one key, or five keys of five indexes, into the trees
// and does nothing else. It shows the part of the trees in the growth of the other benchmarks.
func BenchmarkTreeAlone(b *testing.B) {
	for _, indexes := range []int{1, 5} {
		for _, n := range []int{10, 100, 1000, 10000, 100000} {
			b.Run(fmt.Sprintf("indexes=%d/N=%d", indexes, n), func(b *testing.B) { benchTree(b, n, indexes) })
		}
	}
}

func benchTree(b *testing.B, n, indexes int) {
	paths := make([]*path, indexes)
	for i := range paths {
		paths[i] = &path{name: fmt.Sprint("table.", i)}
	}
	db, w := newTrees(paths)
	keys := func(i int) []pathKey {
		all := make([]pathKey, indexes)
		for x := range all {
			all[x] = pathKey{paths[x], KeyOf(fmt.Sprintf("%08x-%08x", uint32(i%n)*2654435761, i%n))}
		}
		return all
	}
	put := func(all []pathKey) {
		txn := db.Txn(true)
		for _, k := range all {
			w.setSlot(txn, k, &slot{number: 1})
		}
		txn.Commit()
	}
	for i := range n {
		put(keys(i))
	}
	benchmeter.Perform(b, 1, benchmeter.AtOnce, keys, put)
}
