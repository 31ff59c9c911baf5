package raftfiles

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// BenchmarkOpen opens a log of 100,000 entries of 1 KiB, four times the size with the default settings.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	id, err := ServerID(dir)
	if err != nil {
		b.Fatal(err)
	}
	options := Options{DataDir: dir, ID: id, Logger: hclog.NewNullLogger()}
	f, err := Open(options)
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 1<<10)
	for i := uint64(0); i < 100_000; i += 1000 {
		batch := make([]*raft.Log, 1000)
		for j := range batch {
			batch[j] = &raft.Log{
				Index:      i + uint64(j) + 1,
				Term:       1,
				Data:       data,
				AppendedAt: time.Unix(1, 0),
			}
		}
		if err := f.Log.StoreLogs(batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f, err := Open(options)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGetLog reads one entry of 1 KiB with its checksum.
func BenchmarkGetLog(b *testing.B) {
	dir := b.TempDir()
	id, err := ServerID(dir)
	if err != nil {
		b.Fatal(err)
	}
	f, err := Open(Options{
		DataDir: dir,
		ID:      id,
		Logger:  hclog.NewNullLogger(),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Log.StoreLog(&raft.Log{Index: 1, Data: make([]byte, 1<<10)}); err != nil {
		b.Fatal(err)
	}
	b.Run("checked", func(b *testing.B) {
		for b.Loop() {
			if err := f.Log.GetLog(1, &raft.Log{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unchecked", func(b *testing.B) {
		for b.Loop() {
			if err := f.Log.WAL.GetLog(1, &raft.Log{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkStoreLog appends one entry of 1 KiB durably, with the checksum and the mark and without.
func BenchmarkStoreLog(b *testing.B) {
	for name, stored := range map[string]func(f *Files) func(*raft.Log) error{
		"checked":   func(f *Files) func(*raft.Log) error { return f.Log.StoreLog },
		"unchecked": func(f *Files) func(*raft.Log) error { return f.Log.WAL.StoreLog },
	} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			id, err := ServerID(dir)
			if err != nil {
				b.Fatal(err)
			}
			f, err := Open(Options{
				DataDir: dir,
				ID:      id,
				Logger:  hclog.NewNullLogger(),
			})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			index := uint64(0)
			store := stored(f)
			for b.Loop() {
				index++
				if err := store(&raft.Log{Index: index, Data: make([]byte, 1<<10)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
