package client

import (
	"path/filepath"
	"testing"
	"time"

	"berth/structs"
)

func TestClient_FindsTheFilesOfAnAllocation(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.place(testAlloc("a1"))
		r.pass(time.Second)
		logs, dead, err := r.client.LogFiles("a1", "web", "stdout")
		if err != nil || logs != filepath.Join(r.dir, "alloc/a1/alloc/logs") || isClosed(dead) {
			t.Fatalf("got the log directory %s, of a dead task %t, %v", logs, isClosed(dead), err)
		}
		dir, ended, err := r.client.AllocDir("a1")
		if err != nil || dir != filepath.Join(r.dir, "alloc/a1") || isClosed(ended) {
			t.Fatalf("got the directory %s, of an ended allocation %t, %v", dir, isClosed(ended), err)
		}
		for _, c := range []struct {
			task, kind string
		}{{"db", "stdout"}, {"web", "both"}} {
			if _, _, err := r.client.LogFiles("a1", c.task, c.kind); !structs.IsKind(err, structs.KindInvalid) {
				t.Errorf("%s of %s: got %v, want invalid", c.kind, c.task, err)
			}
		}
		r.servers.stopAlloc("a1")
		r.pass(time.Second)
		if !isClosed(dead) || !isClosed(ended) {
			t.Errorf("after its end: the task is dead %t, the allocation has ended %t",
				isClosed(dead), isClosed(ended))
		}
		if _, _, err := r.client.LogFiles("a1", "web", "stdout"); err != nil {
			t.Errorf("logs of an ended allocation: %v", err)
		}
		r.servers.remove("a1")
		r.pass(time.Second)
		if _, _, err := r.client.LogFiles("a1", "web", "stdout"); !structs.IsKind(err, structs.KindNotFound) {
			t.Errorf("logs of a deleted allocation: got %v, want not-found", err)
		}
		if _, _, err := r.client.AllocDir("a1"); !structs.IsKind(err, structs.KindNotFound) {
			t.Errorf("the directory of a deleted allocation: got %v, want not-found", err)
		}
	})
}
