package state_test

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
)

// TestPages_EqualTheList compares pages of a table and of an index, forwards and backwards, with a scan of
// all rows. The stores are small, so that the neighbours in the tree are rows of other tables.
func TestPages_EqualTheList(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "aa", "ab", "b", "b\x00", "ba", "c", "\x01"})
	rapid.Check(t, func(rt *rapid.T) {
		s := state.New()
		_ = s.Write(1, func(tx *state.WriteTx) error {
			for range rapid.IntRange(0, 12).Draw(rt, "jobs") {
				j := &structs.Job{Namespace: name.Draw(rt, "namespace"), ID: name.Draw(rt, "job")}
				schema.JobVersions.Put(tx, j.Copy())
				if rapid.Bool().Draw(rt, "is there") {
					schema.Jobs.Put(tx, j)
				}
				schema.Allocs.Put(tx, &structs.Allocation{
					ID:        name.Draw(rt, "alloc"),
					Namespace: j.Namespace,
					JobID:     j.ID,
					EvalID:    name.Draw(rt, "eval"),
					DesiredStatus: rapid.SampledFrom([]string{structs.AllocDesiredRun, structs.AllocDesiredStop}).Draw(rt,
						"desired"),
				})
			}
			return nil
		})
		tx := s.Read()
		at := state.Page{Reverse: rapid.Bool().Draw(rt, "reverse")}
		ns, prefix := rapid.SampledFrom([]string{"a", "b", "*"}).Draw(rt, "list"),
			rapid.SampledFrom([]string{"", "a", "b", "zz"}).Draw(rt, "prefix")
		first := []string{name.Draw(rt, "begin namespace"), name.Draw(rt, "begin")}
		if rapid.Bool().Draw(rt, "from") {
			at.From = first
		}
		wantPage(rt, tx, state.JobsFrom(tx, ns, prefix, at), state.Jobs(tx, ns, prefix), at,
			func(j *structs.Job) []string { return []string{j.Namespace, j.ID} })
		if at.From != nil {
			at.From = at.From[1:]
		}
		byID := func(a *structs.Allocation) []string { return []string{a.ID} }
		wantPage(rt, tx, state.AllocsFrom(tx, ns, prefix, at), state.AllocsByPrefix(tx, ns, prefix), at, byID)
		page := state.AllocsByJobFrom(tx, "a", first[1], at)
		wantPage(rt, tx, page, state.AllocsByJob(tx, "a", first[1]), at, byID)
		ofEval := schema.Filter(schema.Allocs.Scan(tx), func(a *structs.Allocation) bool {
			return a.EvalID == first[1]
		})
		wantPage(rt, tx, state.AllocsByEvalFrom(tx, first[1], at), ofEval, at, byID)
	})
}

// wantPage compares a page with the rows of the whole list, which come in any order.
func wantPage[T any](
	t *rapid.T, _ *state.ReadTx, got, all iter.Seq[*T], at state.Page, key func(*T) []string,
) {
	want := slices.SortedFunc(all, func(a, b *T) int {
		return slices.Compare(key(a), key(b))
	})
	if at.Reverse {
		slices.Reverse(want)
	}
	want = slices.DeleteFunc(want, func(r *T) bool {
		order := slices.Compare(key(r), at.From)
		return at.From != nil && (order < 0 && !at.Reverse || order > 0 && at.Reverse)
	})
	rows := slices.Collect(got)
	if !slices.Equal(rows, want) {
		render := func(rows []*T) (out []string) {
			for _, r := range rows {
				out = append(out, fmt.Sprintf("%q", key(r)))
			}
			return out
		}
		t.Fatalf("%T from %+v: got %v, want %v", want, at, render(rows), render(want))
	}
}

// TestClaimQueue_ReadsFromAnyPosition: a queue that is read class by class has the volume's claims in order.
func TestClaimQueue_ReadsFromAnyPosition(t *testing.T) {
	w := storeWithQueue(t, 0, 20)
	tx := w.s.Read()
	all := csi.ClaimsByVolume(tx, "default", "v")
	for _, back := range []bool{false, true} {
		for i := range len(all) + 1 {
			var from *structs.CSIClaim
			want := slices.Clone(all)
			if i < len(all) {
				from = all[i]
				want = want[i:]
				if back {
					want = slices.Clone(all[:i+1])
				}
			}
			if back {
				slices.Reverse(want)
			}
			rows, sorted := csi.QueueFrom(tx, "default", "v", csi.QueuePage{From: from, Reverse: back})
			if !sorted || !slices.Equal(slices.Collect(rows), want) {
				t.Errorf("from %d on, back %v: other claims than those of the volume", i, back)
			}
		}
	}
	if _, sorted := csi.QueueFrom(storeWithQueue(t, 1, 2).s.Read(), "default", "v", csi.QueuePage{}); sorted {
		t.Error("the queue counts as sorted, but the index of classes omits readers that share a volume")
	}
}
