package state_test

import (
	"bytes"
	"fmt"
	"testing"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// source registers a job with a salt in its specification and its source.
func (w *fixture) source(salt int, text string) {
	w.T.Helper()
	do(w, state.JobRegister, &structs.JobRegisterRequest{
		Job:          jobWithSalt("j", salt),
		Submission:   &structs.JobSubmission{Source: text, Format: structs.FormatHCL2, JobID: "k", Version: 9},
		WriteOptions: w.Now(),
	})
}

// sources lists the stored sources as "namespace version text".
func (w *fixture) sources() (all []string) {
	for s := range schema.JobSubmissions.Scan(w.Store.Read()) {
		all = append(all, fmt.Sprint(s.Namespace, " ", s.Version, " ", s.Source))
	}
	return all
}

func (w *fixture) wantSources(want ...string) {
	w.T.Helper()
	if got := w.sources(); fmt.Sprint(got) != fmt.Sprint(want) {
		w.T.Errorf("got sources %q, want %q", got, want)
	}
}

func TestJobRegister_KeepsTheSourceOfEachVersion(t *testing.T) {
	w := newFixture(t)
	w.source(1, "one")
	w.source(2, "two")
	w.Job(jobWithSalt("j", 3)) // without its source
	w.wantSources("default 0 one", "default 1 two")
	w.source(3, "three")
	first := state.JobSubmission(w.Store.Read(), "default", "j", 2)
	w.source(3, "three")
	if state.JobSubmission(w.Store.Read(), "default", "j", 2) != first {
		t.Error("an equal source was put again")
	}
	if first.JobModifyIndex != state.Job(w.Store.Read(), "default", "j").JobModifyIndex {
		t.Errorf("the source is that of index %d", first.JobModifyIndex)
	}
	w.source(3, "three # a comment")
	w.wantSources("default 0 one", "default 1 two", "default 2 three # a comment")
	w.wantJob("j", structs.JobPending, 2)
}

func TestJobVersions_TakeTheirSourcesWithThem(t *testing.T) {
	w := newFixture(t)
	for n := range state.KeptVersions + 3 {
		w.source(n, fmt.Sprint(n))
	}
	w.wantSources("default 2 2", "default 3 3", "default 4 4", "default 5 5", "default 6 6", "default 7 7",
		"default 8 8")
	if faults := state.Check(w.Store.Read()); faults != nil {
		t.Error(faults)
	}
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "j", Purge: true, WriteOptions: w.Now()})
	w.wantSources()
}

// A server of an earlier version rejects a file with a table that it does not know.
func TestSave_LeavesOutATableWithoutRows(t *testing.T) {
	w := newFixture(t)
	w.Job(jobWithSalt("j", 1))
	name := []byte("job_submissions")
	if bytes.Contains(saved(t, w.Store), name) {
		t.Error("the file names a table that no entry has changed")
	}
	w.source(1, "one")
	if !bytes.Contains(saved(t, w.Store), name) {
		t.Error("the file has no sources")
	}
}
