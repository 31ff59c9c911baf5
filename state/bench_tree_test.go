package state

import (
	"testing"

	"berth/internal/benchmeter"
	"berth/internal/benchshape"
)

// BenchmarkTreeAlone is what a transaction costs that puts a key into the tree, or five, each in an index of its own, and does
// nothing else: no row is looked up, compared or kept. What of the growth of the others is the tree's shows here.
func BenchmarkTreeAlone(b *testing.B) {
	b.Run("indexes=1", func(b *testing.B) { bySize(b, "N", benchSizes, func(b *testing.B, n int) { benchTree(b, n, 1) }) })
	b.Run("indexes=5", func(b *testing.B) { bySize(b, "N", benchSizes, func(b *testing.B, n int) { benchTree(b, n, 5) }) })
}

func benchTree(b *testing.B, n, indexes int) {
	db, w := newTree()
	keys := func(i int) []key {
		all := make([]key, indexes)
		for x := range all {
			all[x] = keyOf(benchshape.UUID("node", i%n))
			all[x][0] = byte(x + 1)
		}
		return all
	}
	put := func(all []key) {
		txn := db.Txn(true)
		for _, k := range all {
			w.put(txn, k, &slot{number: 1})
		}
		txn.Commit()
	}
	for i := range n {
		put(keys(i))
	}
	benchmeter.Perform(b, 1, benchmeter.AtOnce, keys, put)
}
