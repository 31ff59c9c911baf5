package mvcc

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"slices"
	"testing"

	"berth/test/kit"
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
	kit.MeasurePrepared(b, 1, kit.AtOnce, keys, put)
}

// mostPlaced is the number of allocations in the largest plan of the scheduler.
const mostPlaced = 2048

// BenchmarkTreeOfPlan puts the keys of 10,000 new allocations into bare trees and does nothing else. They are
// the keys of the table and of the index of jobs, and for a system job that of the list of each node. A
// transaction has as many as the largest plan. The result is a lower bound of BenchmarkPlanApply of the
// scheduler. If sorted is true, the keys of the table are in their order.
func BenchmarkTreeOfPlan(b *testing.B) {
	for _, sorted := range []bool{false, true} {
		b.Run(fmt.Sprintf("sorted=%t", sorted), func(b *testing.B) { benchPlanTrees(b, 10_000, sorted, false) })
	}
	b.Run("system", func(b *testing.B) { benchPlanTrees(b, 10_000, true, true) })
}

// BenchmarkTreeOfPlanSizes is BenchmarkTreeOfPlan for a system job on fleets of two sizes.
func BenchmarkTreeOfPlanSizes(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("system/N=%d", n), func(b *testing.B) { benchPlanTrees(b, n, true, true) })
	}
}

func benchPlanTrees(b *testing.B, n int, sorted, system bool) {
	uuid := func(kind string, i int) string {
		h := sha1.Sum(fmt.Append(nil, kind, i))
		return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
	}
	const near = 16 // allocations that follow each other: the scheduler lets their IDs begin alike
	paths := []*path{{name: "allocs"}, {name: "allocs.job"}, {name: "allocs.node"}}
	nodes := make([]string, n)
	for i := range nodes {
		nodes[i] = uuid("node", i)
	}
	slices.Sort(nodes) // the order of a plan
	keys := make([][]Key, n)
	for i := range keys {
		id := uuid("near", i/near)[:3] + uuid("alloc", i)[3:]
		keys[i] = []Key{
			KeyOf(id),
			KeyOf("default", "service-0", "live", id),
		}
		if system {
			keys[i] = append(keys[i], KeyOf(nodes[i]))
		}
	}
	m := kit.BeginMeter(b)
	for b.Loop() {
		db, w := newTrees(paths)
		for plan := range slices.Chunk(slices.Clone(keys), mostPlaced) {
			if sorted {
				slices.SortFunc(plan, func(a, b []Key) int { return bytes.Compare(a[0], b[0]) })
			}
			txn := db.Txn(true)
			for _, row := range plan {
				for i, k := range row {
					w.setSlot(txn, pathKey{paths[i], k}, &slot{number: 1})
				}
			}
			txn.Commit()
		}
		m.Round()
	}
	m.End(n)
}
