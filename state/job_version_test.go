package state_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/structs"
)

// jobStore is a state with an entry after the other.
type jobStore struct {
	*state.Store
	t     *testing.T
	index uint64
}

// newJobStore has the job "j" with some versions.
func newJobStore(t *testing.T, versions int) *jobStore {
	s := &jobStore{Store: state.New(), t: t, index: 10}
	for range versions {
		s.register()
	}
	return s
}

// tryJob applies an entry, and checks the invariants after it.
func tryJob[P any](s *jobStore, apply func(*mvcc.WriteTx, *P) error, p *P) error {
	s.t.Helper()
	s.index++
	err := s.Write(s.index, func(tx *state.WriteTx) error { return apply(tx, p) })
	for _, fault := range state.Check(s.Read()) {
		s.t.Error(fault)
	}
	return err
}

func mustJob[P any](s *jobStore, apply func(*mvcc.WriteTx, *P) error, p *P) {
	s.t.Helper()
	err := tryJob(s, apply, p)
	if err != nil {
		s.t.Fatal(err)
	}
}

// register registers another version of the job.
func (s *jobStore) register() {
	s.t.Helper()
	j := &structs.Job{ID: "j", Name: fmt.Sprint(s.index)}
	mustJob(s, state.JobRegister, &structs.JobRegisterRequest{Job: j})
}

func (s *jobStore) tag(version uint64, name string) error {
	s.t.Helper()
	return tryJob(s, state.JobTag, &structs.JobTagRequest{
		JobID:        "j",
		JobVersion:   version,
		TagName:      name,
		Description:  "of " + name,
		WriteOptions: structs.WriteOptions{Now: int64(s.index)},
	})
}

func (s *jobStore) untag(name string) error {
	s.t.Helper()
	return tryJob(s, state.JobUntag, &structs.JobUntagRequest{JobID: "j", TagName: name})
}

func (s *jobStore) job() *structs.Job { return state.Job(s.Read(), structs.DefaultNamespace, "j") }

// versions lists the stored versions with their tags.
func (s *jobStore) versions() (list []string) {
	for v := range state.JobVersions(s.Read(), structs.DefaultNamespace, "j") {
		text := fmt.Sprint(v.Version)
		if v.VersionTag != nil {
			text += v.VersionTag.Name
		}
		list = append(list, text)
	}
	return list
}

func (s *jobStore) want(versions ...string) {
	s.t.Helper()
	if got := s.versions(); !slices.Equal(got, versions) {
		s.t.Errorf("the versions are %q, want %q", got, versions)
	}
}

func wantFaultKind(t *testing.T, err error, kind structs.Kind, text string) {
	t.Helper()
	if !structs.IsKind(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want an error of kind %s with %q", err, kind, text)
	}
}

func TestTag_IsOnTheVersionAndOnTheCurrentJob(t *testing.T) {
	s := newJobStore(t, 2)
	before := s.job()
	if err := s.tag(1, "golden"); err != nil {
		t.Fatal(err)
	}
	s.want("0", "1golden")
	j := s.job()
	want := structs.JobVersionTag{Name: "golden", Description: "of golden", TaggedTime: int64(s.index) - 1}
	if j.VersionTag == nil || *j.VersionTag != want {
		t.Errorf("the job has the tag %+v, want %+v", j.VersionTag, want)
	}
	if j.JobModifyIndex != before.JobModifyIndex || j.Version != 1 || before.VersionTag != nil {
		t.Errorf("the tag has changed the specification: %+v", j)
	}
	if s.tag(0, "first") != nil || s.job().VersionTag.Name != "golden" {
		t.Error("the tag of an earlier version is on the job")
	}
	if err := s.tag(1, "gold"); err != nil { // it replaces the other
		t.Fatal(err)
	}
	s.want("0first", "1gold")
	if err := s.untag("gold"); err != nil {
		t.Fatal(err)
	}
	s.want("0first", "1")
	if s.job().VersionTag != nil {
		t.Error("the job has the tag still")
	}
}

func TestTag_RejectsFaults(t *testing.T) {
	s := newJobStore(t, 2)
	if err := s.tag(0, "golden"); err != nil {
		t.Fatal(err)
	}
	wantFaultKind(t, s.tag(1, "golden"), structs.KindConflict, `version 0 of job "j" has the tag "golden"`)
	wantFaultKind(t, s.tag(7, "x"), structs.KindNotFound, "there is no version 7")
	wantFaultKind(t, s.tag(1, ""), structs.KindInvalid, "missing")
	wantFaultKind(t, s.tag(1, strings.Repeat("x", structs.MaxJobTagName+1)), structs.KindInvalid,
		"129 bytes; at most 128")
	wantFaultKind(t, s.tag(1, "a\nb"), structs.KindInvalid, "control characters")
	wantFaultKind(t, s.tag(1, "\xff"), structs.KindInvalid, "UTF-8")
	wantFaultKind(t, s.untag("other"), structs.KindNotFound, `no version of job "j" has the tag "other"`)
	s.want("0golden", "1")

	none := &structs.JobTagRequest{JobID: "none", TagName: "x"}
	wantFaultKind(t, tryJob(s, state.JobTag, none), structs.KindNotFound, `no job "none"`)
	unset := &structs.JobUntagRequest{JobID: "none", TagName: "x"}
	wantFaultKind(t, tryJob(s, state.JobUntag, unset), structs.KindNotFound, `no job "none"`)
	long := &structs.JobTagRequest{JobID: "j", TagName: "x"}
	long.Description = strings.Repeat("x", structs.MaxJobTagDescription+1)
	wantFaultKind(t, tryJob(s, state.JobTag, long), structs.KindInvalid, "1001 bytes")
}

func TestTag_KeepsItsVersionUntilItIsRemoved(t *testing.T) {
	s := newJobStore(t, 2)
	if err := s.tag(0, "golden"); err != nil {
		t.Fatal(err)
	}
	for range 7 {
		s.register()
	}
	s.want("0golden", "2", "3", "4", "5", "6", "7", "8")
	if err := s.untag("golden"); err != nil {
		t.Fatal(err)
	}
	s.register()
	s.want("3", "4", "5", "6", "7", "8", "9")
}

func TestTag_IsNotThatOfTheNextVersion(t *testing.T) {
	s := newJobStore(t, 1)
	if err := s.tag(0, "golden"); err != nil {
		t.Fatal(err)
	}
	stored := s.job().Copy() // as a user reads it and registers it again
	mustJob(s, state.JobRegister, &structs.JobRegisterRequest{Job: stored})
	s.want("0golden")
	stored = stored.Copy()
	stored.Name = "other"
	mustJob(s, state.JobRegister, &structs.JobRegisterRequest{Job: stored})
	s.want("0golden", "1")
	mustJob(s, state.JobRevert, &structs.JobRevertRequest{JobID: "j"})
	s.want("0golden", "1", "2")
	mustJob(s, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "j"})
	s.want("0golden", "1", "2", "3")
	mustJob(s, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "j", Purge: true})
	s.want()
}

func TestTag_HasABoundOfVersions(t *testing.T) {
	s := newJobStore(t, 1)
	for n := range structs.MaxJobTags {
		if err := s.tag(uint64(n), fmt.Sprint("t", n)); err != nil {
			t.Fatal(err)
		}
		s.register()
	}
	wantFaultKind(t, s.tag(structs.MaxJobTags, "more"), structs.KindPrecondition, "64 other versions")
	if err := s.tag(0, "again"); err != nil { // it has one already
		t.Error(err)
	}
}
