package state

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"berth/structs"
)

// mirror is what who follows a store knows of it by looking at nothing but what it is told.
type mirror struct {
	store *Store
	feed  *Feed
	looks int // at everything
	nodes map[string]string
	ended map[structs.CSIClaimKey]string // and the nodes they are on
}

func follow(s *Store, most int) *mirror {
	m := &mirror{store: s, feed: s.Follow(most, NodeRows, EndedClaimRows)}
	m.look(s.Read())
	return m
}

func (m *mirror) look(tx *Read) {
	m.looks++
	m.nodes, m.ended = map[string]string{}, map[structs.CSIClaimKey]string{}
	for n := range Nodes(tx) {
		m.nodes[n.ID] = n.Name
	}
	for c := range EndedClaims(tx) {
		m.ended[c.Key()] = c.NodeID
	}
}

// catchUp takes what has come, looks, and returns what it looked at.
func (m *mirror) catchUp() []Changed {
	rows, all := m.feed.Take()
	tx := m.store.Read()
	if all {
		m.look(tx)
		return nil
	}
	for _, c := range rows {
		switch c.Topic {
		case NodeRows:
			delete(m.nodes, c.Key[0])
			if n := Node(tx, c.Key[0]); n != nil {
				m.nodes[n.ID] = n.Name
			}
		case EndedClaimRows:
			k := structs.CSIClaimKey{Namespace: c.Key[0], VolumeID: c.Key[1], AllocID: c.Key[2]}
			delete(m.ended, k)
			if e := Claim(tx, k.Namespace, k.VolumeID, k.AllocID); e != nil && e.EndTime != 0 {
				m.ended[k] = e.NodeID
			}
		}
	}
	return rows
}

// faults says in what the mirror differs from the store.
func (m *mirror) faults() (faults []string) {
	is := &mirror{}
	is.look(m.store.Read())
	if !reflect.DeepEqual(m.nodes, is.nodes) || !reflect.DeepEqual(m.ended, is.ended) {
		faults = append(faults, fmt.Sprintf("mirror %v %v, store %v %v", m.nodes, m.ended, is.nodes, is.ended))
	}
	return faults
}

// changeSome changes rows of three tables, two of which are followed, and returns which rows of these.
func changeSome(tx *Write, n func(most int) int) (rows []Changed) {
	// NUL, 0x01 and parts that are empty or begin alike are where keys could be taken for others.
	names := []string{"", "a", "ab", "a\x00", "\x01", "b\x00\x01c"}
	name := func() string { return names[n(len(names))] }
	switch n(3) {
	case 0:
		r := &structs.Node{ID: name(), Name: fmt.Sprint(n(1000))}
		rows = append(rows, Changed{NodeRows, [3]string{r.ID}})
		if n(3) == 0 {
			nodes.delete(tx, r)
			return rows
		}
		nodes.put(tx, r)
	case 1:
		c := &structs.CSIClaim{Namespace: name(), VolumeID: name(), AllocID: name(), NodeID: name(), EndTime: int64(n(2)), State: structs.ClaimGranted}
		old := Claim(tx.Read, c.Namespace, c.VolumeID, c.AllocID)
		if c.EndTime != 0 || old != nil && old.EndTime != 0 {
			rows = append(rows, Changed{EndedClaimRows, [3]string{c.Namespace, c.VolumeID, c.AllocID}})
		}
		if n(3) == 0 {
			claims.delete(tx, c)
			return rows
		}
		claims.put(tx, c)
	default:
		evals.put(tx, &structs.Evaluation{ID: name()})
	}
	return rows
}

// changeBatch applies a batch in which entries fail, which spills, and which may be given up. It returns the rows of
// all entries.
func changeBatch(s *Store, n func(most int) int) (rows []Changed) {
	b := s.Batch()
	defer b.Abort()
	b.most = []int{1, 3, mostPending}[n(3)]
	for range 1 + n(3) {
		fails := n(3) == 0
		_ = b.Apply(s.Index()+1, func(tx *Write) error {
			for range 1 + n(3) {
				rows = append(rows, changeSome(tx, n)...)
			}
			if fails {
				return structs.Errorf(structs.KindConflict, "no")
			}
			return nil
		})
	}
	if n(5) > 0 {
		b.Commit()
	}
	return rows
}

// TestWhoFollowsKnowsTheRowsByWhatItIsTold: what may have changed and nothing else, whatever becomes of batches and
// entries; and that it was too much, or that the store was restored.
func TestWhoFollowsKnowsTheRowsByWhatItIsTold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := func(most int) int { return rapid.IntRange(0, most-1).Draw(rt, "n") }
		s := New()
		changeBatch(s, n)
		before := saved(t, s)
		m, narrow := follow(s, 1000), follow(s, 2)
		defer m.feed.Close()
		defer narrow.feed.Close()
		touched, restored := map[Changed]bool{}, false
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch n(12) {
			case 0:
				must(t, s.Load(bytes.NewReader(before)))
				restored = true
			case 1, 2, 3:
				looks := m.looks
				rows := m.catchUp()
				narrow.catchUp()
				if faults := append(m.faults(), narrow.faults()...); len(faults) > 0 {
					rt.Fatal(faults)
				}
				if restored != (m.looks > looks) {
					rt.Errorf("restored %v, looked at everything %v", restored, m.looks > looks)
				}
				for i, c := range rows {
					if !touched[c] || slices.Contains(rows[:i], c) {
						rt.Errorf("%+v is told, of %v", c, rows)
					}
				}
				touched, restored = map[Changed]bool{}, false
			default:
				for _, c := range changeBatch(s, n) {
					touched[c] = true
				}
			}
		}
	})
}

// TestAFeedKeepsAFewAndSaysSo: it holds no more than it may; who looks at everything then has lost nothing.
func TestAFeedKeepsAFewAndSaysSo(t *testing.T) {
	s := New()
	f := s.Follow(10, NodeRows)
	for i := range 100 {
		_ = s.Write(s.Index()+1, putNode(fmt.Sprint("n", i%10)))
		if len(f.keys) > 10 {
			t.Fatalf("%d keys are kept", len(f.keys))
		}
	}
	<-f.Told()
	if rows, all := f.Take(); !all || len(rows) != 0 {
		t.Errorf("%d rows, all %v", len(rows), all)
	}
	_ = s.Write(s.Index()+1, putNode("n1"))
	_ = s.Write(s.Index()+1, func(tx *Write) error { evals.put(tx, &structs.Evaluation{ID: "e"}); return nil })
	_ = s.Write(s.Index()+1, putNode("n1"))
	<-f.Told()
	if rows, all := f.Take(); all || len(rows) != 1 || rows[0] != (Changed{NodeRows, [3]string{"n1"}}) {
		t.Errorf("%v, all %v", rows, all)
	}
	select {
	case <-f.Told():
		t.Error("what is taken is told once more")
	default:
	}
	f.Close()
	_ = s.Write(s.Index()+1, putNode("n1"))
	if rows, all := f.Take(); all || len(rows) != 0 {
		t.Errorf("a feed that is closed has %v, all %v", rows, all)
	}
	for lead, some := range s.watches.feeds {
		if len(some) > 0 {
			t.Errorf("%d feeds are kept for %d", len(some), lead)
		}
	}
}

// TestNobodyWhoFollowsMissesAnything while several write, and several come and go.
func TestNobodyWhoFollowsMissesAnything(t *testing.T) {
	s, ended := New(), make(chan struct{})
	var index atomic.Uint64
	var writers, followers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for range 500 {
				_ = s.Write(index.Add(1), func(tx *Write) error { changeSome(tx, r.IntN); return nil })
			}
		})
	}
	for w := range 3 {
		followers.Go(func() {
			for over := false; !over; {
				m := follow(s, 1+100*w)
				for range 20 {
					select {
					case <-m.feed.Told():
					case <-ended:
						over = true
					}
					m.catchUp()
				}
				if over {
					if faults := m.faults(); len(faults) > 0 {
						t.Error(faults)
					}
				}
				m.feed.Close()
			}
		})
	}
	writers.Wait()
	close(ended)
	followers.Wait()
}

func FuzzPartsOfAKey(f *testing.F) {
	f.Add("a", "", "\x00\x01")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if got := partsOf(keyOf(a, b, c)); !slices.Equal(got, []string{a, b, c}) {
			t.Errorf("got %q", got)
		}
	})
}

// BenchmarkAChangeThatIsFollowed is the price of a write of one row, and of its being taken by so many who follow.
func BenchmarkAChangeThatIsFollowed(b *testing.B) {
	for _, followers := range []int{0, 2} {
		b.Run(fmt.Sprint(followers), func(b *testing.B) {
			s := New()
			var feeds []*Feed
			for range followers {
				feeds = append(feeds, s.Follow(1<<16, NodeRows))
			}
			for b.Loop() {
				_ = s.Write(s.Index()+1, putNode("n"))
				for _, f := range feeds {
					f.Take()
				}
			}
		})
	}
}
