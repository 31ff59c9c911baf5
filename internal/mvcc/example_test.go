package mvcc_test

import (
	"context"
	"errors"
	"fmt"

	"berth/internal/mvcc"
)

// Indexes are the log indexes that Put stamps. Each row embeds them.
type Indexes struct{ CreateIndex, ModifyIndex uint64 }

func (i *Indexes) Stamps() (created, modified uint64) { return i.CreateIndex, i.ModifyIndex }

func (i *Indexes) Stamp(created, modified uint64) { *i = Indexes{created, modified} }

// Host is a row. It embeds the log indexes that Put stamps.
type Host struct {
	ID, Rack string
	Down     bool
	Indexes
}

var (
	hosts       = mvcc.NewTable("hosts", func(h *Host) mvcc.Key { return mvcc.KeyOf(h.ID) })
	hostsByRack = hosts.Index("rack", func(h *Host) mvcc.Key { return mvcc.KeyOf(h.Rack) })
	downHosts   = hosts.Index("down", func(h *Host) mvcc.Key {
		if !h.Down {
			return nil // the index omits the row
		}
		return mvcc.KeyOf(h.ID)
	})
	schema = mvcc.Schema{Tables: []mvcc.AnyTable{hosts}}
)

func putHosts(all ...Host) func(*mvcc.WriteTx) error {
	return func(tx *mvcc.WriteTx) error {
		for _, h := range all {
			hosts.Put(tx, &h)
		}
		return nil
	}
}

func Example() {
	db := mvcc.Open(&schema)
	_ = db.Write(1, putHosts(
		Host{ID: "a", Rack: "r1"},
		Host{ID: "b", Rack: "r2", Down: true},
		Host{ID: "c", Rack: "r1"},
	))
	tx := db.Read()
	for h := range hostsByRack.Scan(tx, "r1") {
		fmt.Println("in rack r1:", h.ID)
	}
	fmt.Println("down:", downHosts.First(tx).ID)
	// Output:
	// in rack r1: a
	// in rack r1: c
	// down: b
}

// An entry that fails changes nothing. Readers see the other entries when the batch is committed.
func ExampleBatch() {
	db := mvcc.Open(&schema)
	b := db.Begin()
	defer b.Abort()
	_ = b.Apply(1, putHosts(Host{ID: "a"}))
	err := b.Apply(2, func(tx *mvcc.WriteTx) error {
		hosts.Put(tx, &Host{ID: "b"})
		return errors.New("no capacity")
	})
	fmt.Println(err, hosts.Has(db.Read()))
	b.Commit()
	tx := db.Read()
	fmt.Println(hosts.Get(tx, "a").ModifyIndex, hosts.Get(tx, "b"), tx.Applied())
	// Output:
	// no capacity false
	// 1 <nil> 2
}

// A reader waits until a row that it has looked for exists.
func ExampleDB_Wait() {
	db := mvcc.Open(&schema)
	go func() { _ = db.Write(1, putHosts(Host{ID: "a", Rack: "r1"})) }()
	for {
		tx := db.ReadWatched()
		if h := hosts.Get(tx, "a"); h != nil {
			fmt.Println(h.Rack, tx.Newest())
			return
		}
		if err := db.Wait(context.Background(), tx); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output: r1 1
}

// A subscription receives the keys of changed rows.
func ExampleDB_Subscribe() {
	db := mvcc.Open(&schema)
	rows := hosts.Topic(0)
	s := db.Subscribe(100, rows)
	defer s.Close()
	_ = db.Write(1, putHosts(Host{ID: "a"}, Host{ID: "b"}))
	<-s.Ready()
	changes, all := s.TakeChanges()
	for _, c := range changes {
		fmt.Println(c.Topic == rows, c.Key[0])
	}
	fmt.Println(all)
	// Output:
	// true a
	// true b
	// false
}
